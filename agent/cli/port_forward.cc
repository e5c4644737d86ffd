// SPDX-License-Identifier: Apache-2.0
// port-forward: local ports that lead to those of a pod, or of a pod behind a Service or a controller.
#include <memory>
#include <optional>
#include <utility>

#include "agent/cli/commands.h"
#include "agent/cli/pod_target.h"
#include "agent/cli/port_forwarder.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

struct ForwardOptions {
  std::string target;
  std::vector<std::string> ports;
  std::vector<std::string> addresses{"localhost"};
};

struct Forward {
  core::Pod pod;
  std::vector<ForwardedPort> ports;
};

// Nothing: why was told.
std::optional<Forward> FindForward(Session& session, const ForwardOptions& options) {
  auto target = FindPodTarget(session, options.target, PodUse::kAttach);
  if (!target) return std::nullopt;
  auto ports = target->service ? PortsOfService(options.ports, *target->service, target->pod)
                               : PortsOfPod(options.ports, target->pod);
  if (!ports) return Told(Report(ports.error()));
  return Forward{std::move(target->pod), std::move(*ports)};
}

int RunPortForward(const ForwardOptions& options, const GlobalOptions& global) {
  const auto addresses = ListenAddresses(options.addresses);
  if (!addresses) return Report(addresses.error());
  return WithSession(global, [&](Session& session) {
    const auto forward = FindForward(session, options);
    if (!forward) return kFailed;
    const std::string& phase = forward->pod.status().phase();
    if (phase != "Running") {
      return Report(Unavailable(
          StrCat("unable to forward port because pod is not running. Current status=", phase)));
    }
    return ForwardPorts(session, forward->pod, *addresses, forward->ports);
  });
}

}  // namespace

void AddPortForward(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<ForwardOptions>();
  CLI::App* command = app.add_subcommand("port-forward", "Local ports that lead to those of a pod");
  command->fallthrough();
  command->footer(
      "\nport-forward POD|service/NAME|deploy/NAME [LOCAL:]REMOTE…\n"
      "REMOTE is a number or a port's name; \":80\" takes a free local port. Of a Service, REMOTE "
      "is\n"
      "its port. Ends with the pod; Ctrl-C ends it, too.");
  command->add_option("target", options->target, "A pod, service/NAME, deploy/NAME, rs/NAME, …")
      ->required();
  command->add_option("ports", options->ports, "[LOCAL:]REMOTE")->required();
  command
      ->add_option("--address", options->addresses,
                   "Addresses to listen on, or localhost for both of the loopback's")
      ->delimiter(',')
      ->expected(1)
      ->take_all();
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] {
      return RunPortForward(*options, invocation.global);
    };
  });
}

}  // namespace holdfast::agent::cli
