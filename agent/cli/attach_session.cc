// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/attach_session.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "agent/cli/conversation.h"
#include "agent/kube/containers_of.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

// It has a terminal or has none, whatever is asked for.
void ChooseTerminal(const core::Pod& pod, AttachOptions& options) {
  const bool there = kube::HasTerminal(pod, options.container);
  if (options.tty && !there && !options.quiet) {
    std::fprintf(stderr, "error: Unable to use a TTY - container %s did not allocate one\n",
                 options.container.c_str());
  }
  options.tty = there && options.stdin_open && HasTerminalForTty();
}

// One larger than it is, then as it is: a program that draws a screen draws it anew.
v1::AttachRequest AttachStart(const core::Pod& pod, const AttachOptions& options,
                              const std::optional<TerminalSize>& size) {
  v1::AttachRequest request;
  v1::AttachRequest::Start& start = *request.mutable_start();
  start.set_namespace_(pod.metadata().namespace_());
  start.set_pod(pod.metadata().name());
  start.set_container(options.container);
  start.set_stdin(options.stdin_open);
  if (size) {
    start.set_rows(size->rows + 1u);
    start.set_columns(size->columns + 1u);
  }
  return request;
}

std::string FarewellOf(const core::Pod& pod, const AttachOptions& options) {
  const auto& added = pod.spec().ephemeralcontainers();
  const bool ephemeral = std::any_of(added.begin(), added.end(), [&](const auto& each) {
    return each.ephemeralcontainercommon().name() == options.container;
  });
  const std::string again =
      StrCat("'holdctl attach ", pod.metadata().name(), " -c ", options.container, " -n ",
             pod.metadata().namespace_(), " -i -t'");
  if (!ephemeral) return StrCat("Session ended, resume using ", again, " command\n");
  return StrCat(
      "Session ended, the ephemeral container will not be restarted but may be reattached using ",
      again, " if it is still running\n");
}

}  // namespace

int Attach(Session& session, const core::Pod& pod, AttachOptions options) {
  ChooseTerminal(pod, options);
  if (!options.quiet) {
    std::fprintf(stderr,
                 "All commands and output from this session will be recorded in container logs, "
                 "including credentials and sensitive information passed through the command "
                 "prompt.\nIf you don't see a command prompt, try pressing enter.\n");
  }
  grpc::ClientContext context;
  const auto stream = session.stub().Attach(&context);
  Conversation<v1::AttachRequest, v1::AttachResponse> conversation(
      context, *stream, {.stdin_open = options.stdin_open, .tty = options.tty});
  const auto size = options.tty ? SizeOf(STDIN_FILENO) : std::nullopt;
  const auto ran =
      conversation.Run(AttachStart(pod, options, size), [](const v1::AttachResponse&) {});
  if (!ran) return GiveUp(context, *stream), Report(ran.error());
  const grpc::Status status = stream->Finish();
  if (!status.ok() && !conversation.detached()) return Report(status);
  if (options.tty && !options.quiet) Print(FarewellOf(pod, options));
  return kOk;
}

}  // namespace holdfast::agent::cli
