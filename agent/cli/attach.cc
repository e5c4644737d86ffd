// SPDX-License-Identifier: Apache-2.0
// attach: the streams of a container that runs.
#include <memory>

#include "agent/cli/attach_session.h"
#include "agent/cli/commands.h"
#include "agent/cli/default_container.h"
#include "agent/cli/pod_target.h"
#include "agent/kube/pod_status.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

int RunAttach(const std::string& name, AttachOptions options, const GlobalOptions& global) {
  return WithSession(global, [&](Session& session) {
    const auto target = FindPodTarget(session, name, PodUse::kAttach);
    if (!target) return kFailed;
    const auto& pod = target->pod;
    const std::string& phase = pod.status().phase();
    if (kube::IsTerminalPhase(phase)) {
      return Report(InvalidArgument(
          StrCat("cannot attach a container in a completed pod; current phase is ", phase)));
    }
    if (options.container.empty()) options.container = DefaultContainer(pod, options.quiet);
    return Attach(session, pod, options);
  });
}

}  // namespace

void AddAttach(CLI::App& app, Invocation& invocation) {
  struct Flags {
    std::string pod;
    AttachOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("attach", "The streams of a container that runs");
  command->fallthrough();
  command->footer(
      "\nattach POD|TYPE/NAME [-c CONTAINER] [-it]\n"
      "Shows what the container writes from now on. ^P^Q leaves a terminal; the container goes "
      "on.");
  command->add_option("pod", flags->pod, kPodTargetHelp)->required();
  command->add_option("-c,--container", flags->options.container, "Container of the pod");
  command->add_flag("-i,--stdin", flags->options.stdin_open, "Pass stdin on");
  command->add_flag("-t,--tty", flags->options.tty, "Stdin is a terminal");
  command->add_flag("-q,--quiet", flags->options.quiet, "Only what the container prints");
  command->callback([flags, &invocation] {
    invocation.action = [flags, &invocation] {
      return RunAttach(flags->pod, flags->options, invocation.global);
    };
  });
}

}  // namespace holdfast::agent::cli
