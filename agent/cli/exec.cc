// SPDX-License-Identifier: Apache-2.0
// exec: a program in a container.
#include <cstdio>
#include <memory>
#include <optional>

#include "agent/cli/commands.h"
#include "agent/cli/conversation.h"
#include "agent/cli/default_container.h"
#include "agent/cli/pod_target.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

struct ExecOptions {
  std::string pod;
  std::string container;
  std::vector<std::string> command;  // without "--", as kubectl once allowed
  bool stdin_open = false;
  bool tty = false;
  bool quiet = false;
};

v1::ExecRequest StartMessage(const ExecOptions& options, const core::Pod& pod,
                             const std::vector<std::string>& command) {
  v1::ExecRequest request;
  v1::ExecRequest::Start& start = *request.mutable_start();
  start.set_namespace_(pod.metadata().namespace_());
  start.set_pod(pod.metadata().name());
  start.set_container(options.container);
  start.mutable_argv()->Assign(command.begin(), command.end());
  start.set_stdin(options.stdin_open);
  start.set_tty(options.tty);
  if (const auto size = SizeOf(STDIN_FILENO); options.tty && size) {
    start.set_rows(size->rows);
    start.set_columns(size->columns);
  }
  return request;
}

int Converse(Session& session, const v1::ExecRequest& first, const ExecOptions& options) {
  grpc::ClientContext context;
  const auto stream = session.stub().Exec(&context);
  Conversation<v1::ExecRequest, v1::ExecResponse> conversation(
      context, *stream, {.stdin_open = options.stdin_open, .tty = options.tty});
  std::optional<v1::ExecResponse::Exit> exit;
  const auto ran = conversation.Run(first, [&exit](const v1::ExecResponse& response) {
    if (response.has_exit()) exit = response.exit();
  });
  if (!ran) return GiveUp(context, *stream), Report(ran.error());
  const grpc::Status status = stream->Finish();
  if (!status.ok()) return ReportChange(status);
  if (conversation.detached()) {
    std::fprintf(stderr, "detached; the program goes on\n");
    return kOk;
  }
  if (!exit) return Report(Internal("the session ended without an exit code"));
  if (exit->code() != 0) {
    std::fprintf(stderr, "command terminated with exit code %d\n", exit->code());
  }
  return exit->code();
}

int RunExec(ExecOptions options, const Invocation& invocation) {
  std::vector<std::string> command = options.command;
  command.insert(command.end(), invocation.after_dashes.begin(), invocation.after_dashes.end());
  if (command.empty()) {
    throw CLI::ValidationError("exec", "you must specify at least one command for the container");
  }
  if (options.tty) options.tty = options.stdin_open && HasTerminalForTty();
  return WithSession(invocation.global, [&](Session& session) {
    const auto target = FindPodTarget(session, options.pod, PodUse::kAttach);
    if (!target) return kFailed;
    if (options.container.empty()) options.container = DefaultContainer(target->pod, options.quiet);
    return Converse(session, StartMessage(options, target->pod, command), options);
  });
}

}  // namespace

void AddExec(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<ExecOptions>();
  CLI::App* command = app.add_subcommand("exec", "Run a program in a container");
  command->fallthrough();
  command->footer(
      "\nexec POD|TYPE/NAME [-c CONTAINER] [-it] -- PROGRAM [ARGUMENT…]\n"
      "^P^Q leaves a terminal session and lets the program go on.");
  command->add_option("pod", options->pod, kPodTargetHelp)->required();
  command->add_option("command", options->command, "Program and arguments; better behind --");
  command->add_option("-c,--container", options->container, "Container of the pod");
  command->add_flag("-i,--stdin", options->stdin_open, "Pass stdin on");
  command->add_flag("-t,--tty", options->tty, "With a terminal");
  command->add_flag("-q,--quiet", options->quiet, "Only what the program prints");
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunExec(*options, invocation); };
  });
}

}  // namespace holdfast::agent::cli
