// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/command_session.h"

#include <chrono>

namespace holdfast::agent::streams {
namespace {

// kubectl sends the size right after the beginning; a program that asks at its start shall see it.
constexpr std::chrono::milliseconds kSizeWait{100};

DescriptorSession::Opener ExecOpener(NodeOperations& node, const CommandTarget& target,
                                     const std::optional<TerminalSize>& size) {
  ExecSpec spec;
  spec.argv = target.request.command;
  spec.stdin_open = target.request.input;
  spec.tty = target.request.tty;
  if (size) {
    spec.rows = size->rows;
    spec.columns = size->columns;
  }
  return [&node, id = target.container, spec]() -> Result<SessionEnds> {
    ASSIGN_OR_RETURN(std::unique_ptr<ExecSession> program, node.Exec(id, spec));
    return EndsOfProgram(std::move(program), spec);
  };
}

DescriptorSession::Opener AttachOpener(NodeOperations& node, const CommandTarget& target) {
  const AttachSpec spec{target.request.input, target.request.output, target.request.error};
  return [&node, id = target.container, spec]() -> Result<SessionEnds> {
    ASSIGN_OR_RETURN(AttachedStreams streams, node.Attach(id, spec));
    SessionEnds ends;
    ends.terminal = streams.terminal;
    ends.input = std::move(streams.input);
    ends.output = std::move(streams.output);
    ends.error_output = std::move(streams.error_output);
    if (streams.input_once)
      ends.input_ended = [&node, id] { (void)node.CloseStdin(id); };  // it may have ended
    return ends;
  };
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
  session_->Open(target_.request.verb == StreamVerb::kAttach
                     ? AttachOpener(context_.node, target_)
                     : ExecOpener(context_.node, target_, size_));
}

void CommandSession::Close() {
  opened_ = true;  // or never
  size_wait_->cancel();
  session_->Close();
}

}  // namespace holdfast::agent::streams
