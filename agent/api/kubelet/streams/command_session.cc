// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/command_session.h"

#include <chrono>

#include "agent/operate/session_openers.h"

namespace holdfast::agent::streams {
namespace {

// kubectl sends the size right after the beginning; a program that asks at its start shall see it.
constexpr std::chrono::milliseconds kSizeWait{100};

DescriptorSession::Opener OpenerOf(NodeOperations& node, const CommandTarget& target,
                                   const std::optional<TerminalSize>& size) {
  const StreamRequest& request = target.request;
  if (request.verb == StreamVerb::kAttach) {
    return AttachOpener(node, target.container, {request.input, request.output, request.error});
  }
  ExecSpec spec;
  spec.argv = request.command;
  spec.stdin_open = request.input;
  spec.tty = request.tty;
  if (size) {
    spec.rows = size->rows;
    spec.columns = size->columns;
  }
  return ExecOpener(node, target.container, std::move(spec));
}

}  // namespace

CommandSession::CommandSession(StreamContext& context, const boost::asio::any_io_executor& executor,
                               CommandTarget target, StreamPeer& peer)
    : context_(context),
      target_(std::move(target)),
      session_(DescriptorSession::Make(executor, context.blocking, peer)),
      size_wait_(std::make_shared<boost::asio::steady_timer>(executor)) {}

const char* CommandSession::doing() const {
  return target_.request.verb == StreamVerb::kAttach ? "attaching to container"
                                                     : "executing command in container";
}

bool CommandSession::Wants(StreamOutput output) const {
  return output == StreamOutput::kStdout ? target_.request.output : target_.request.error;
}

void CommandSession::Begin() {
  begun_ = true;
  if (!target_.request.tty || size_) return Open();
  size_wait_->expires_after(kSizeWait);
  // (The timer is cancelled before this goes.)
  size_wait_->async_wait([this, timer = size_wait_](const auto& error) {
    if (!error) Open();
  });
}

void CommandSession::Resize(TerminalSize size) {
  if (size.rows == 0 || size.columns == 0) return;
  size_ = size;
  session_->Resize(size);
  if (begun_) Open();
}

void CommandSession::Open() {
  if (std::exchange(opened_, true)) return;
  size_wait_->cancel();
  session_->Open(Audited(context_.audit, target_.audit, OpenerOf(context_.node, target_, size_)));
}

void CommandSession::Close() {
  opened_ = true;  // or never
  size_wait_->cancel();
  session_->Close();
}

}  // namespace holdfast::agent::streams
