// SPDX-License-Identifier: Apache-2.0
// port-forward: local ports that lead to those of a pod, or of a pod behind a Service or a controller.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "agent/cli/commands.h"
#include "agent/cli/lists.h"
#include "agent/cli/object.h"
#include "agent/cli/objects.h"
#include "agent/cli/pod_summary.h"
#include "agent/cli/port_forwarder.h"
#include "agent/cli/rows.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

struct ForwardOptions {
  std::string target;
  std::vector<std::string> ports;
  std::vector<std::string> addresses{"localhost"};
};

// Words for what owns pods, and the kind that is their owner.
struct OwnerWord {
  std::string_view word;
  std::string_view kind;
  std::string_view plural;
};
constexpr std::array kOwners = {
    OwnerWord{"deploy", "Deployment", "deployments.apps"},
    OwnerWord{"deployment", "Deployment", "deployments.apps"},
    OwnerWord{"deployments", "Deployment", "deployments.apps"},
    OwnerWord{"deployment.apps", "Deployment", "deployments.apps"},
    OwnerWord{"rs", "ReplicaSet", "replicasets.apps"},
    OwnerWord{"replicaset", "ReplicaSet", "replicasets.apps"},
    OwnerWord{"replicasets", "ReplicaSet", "replicasets.apps"},
    OwnerWord{"sts", "StatefulSet", "statefulsets.apps"},
    OwnerWord{"statefulset", "StatefulSet", "statefulsets.apps"},
    OwnerWord{"statefulsets", "StatefulSet", "statefulsets.apps"},
    OwnerWord{"ds", "DaemonSet", "daemonsets.apps"},
    OwnerWord{"daemonset", "DaemonSet", "daemonsets.apps"},
    OwnerWord{"daemonsets", "DaemonSet", "daemonsets.apps"},
    OwnerWord{"job", "Job", "jobs.batch"},
    OwnerWord{"jobs", "Job", "jobs.batch"},
};

const OwnerWord* FindOwnerWord(std::string_view word) {
  const auto found = std::find_if(kOwners.begin(), kOwners.end(),
                                  [&](const OwnerWord& each) { return each.word == word; });
  return found == kOwners.end() ? nullptr : &*found;
}

// A Deployment owns its pods through a ReplicaSet that is called after it and the template's hash.
bool IsOwnedBy(const core::Pod& pod, std::string_view kind, const std::string& name) {
  const auto& labels = pod.metadata().labels();
  for (const auto& owner : pod.metadata().ownerreferences()) {
    if (owner.kind() == kind && owner.name() == name) return true;
    const auto hash = labels.find("pod-template-hash");
    if (kind == "Deployment" && owner.kind() == "ReplicaSet" && hash != labels.end() &&
        owner.name() == StrCat(name, "-", hash->second)) {
      return true;
    }
  }
  return false;
}

// One that is ready before one that only runs, and that before the others.
const core::Pod* BestOf(const std::vector<core::Pod>& pods) {
  const auto worth = [](const core::Pod& pod) {
    if (pod.status().phase() != "Running") return 0;
    return HasCondition(pod, "Ready") ? 2 : 1;
  };
  const auto best = std::max_element(
      pods.begin(), pods.end(), [&](const auto& a, const auto& b) { return worth(a) < worth(b); });
  return best == pods.end() ? nullptr : &*best;
}

struct Forward {
  core::Pod pod;
  std::vector<ForwardedPort> ports;
};

Result<Forward> WithPorts(const ForwardOptions& options, const core::Pod& pod) {
  ASSIGN_OR_RETURN(std::vector<ForwardedPort> ports, PortsOfPod(options.ports, pod));
  return Forward{pod, std::move(ports)};
}

// Nothing: why was told.
std::optional<Forward> ToldForward(Result<Forward> found) {
  if (found) return std::move(*found);
  return (void)Report(found.error()), std::nullopt;
}

std::optional<Forward> FindForService(Session& session, const ForwardOptions& options,
                                      const std::string& name) {
  const std::string& name_space = session.options().name_space;
  const auto services = ListObjects(session, Resource::kServices, {name_space, ""});
  if (!services.status.ok()) return (void)Report(services.status), std::nullopt;
  const auto picked = PickObjects(services.objects, Resource::kServices, {name_space, name});
  if (!picked) return (void)ReportPick(picked.error()), std::nullopt;
  const auto& service = picked->front().As<core::Service>();
  if (service.spec().selector().empty()) {
    return ToldForward(InvalidArgument(
        StrCat("invalid service '", name, "': Service is defined without a selector")));
  }
  const auto pods = ListPods(session, name_space, SelectorOf(service));
  if (!pods.status.ok()) return (void)Report(pods.status), std::nullopt;
  const core::Pod* pod = BestOf(pods.objects);
  if (pod == nullptr) {
    return ToldForward(NotFound(StrCat("no pod of this node belongs to ", options.target)));
  }
  auto ports = PortsOfService(options.ports, service, *pod);
  if (!ports) return ToldForward(std::move(ports.error()));
  return Forward{*pod, std::move(*ports)};
}

std::optional<Forward> FindForOwner(Session& session, const ForwardOptions& options,
                                    const OwnerWord& owner, const std::string& name) {
  auto pods = ListPods(session, session.options().name_space);
  if (!pods.status.ok()) return (void)Report(pods.status), std::nullopt;
  std::erase_if(pods.objects,
                [&](const core::Pod& pod) { return !IsOwnedBy(pod, owner.kind, name); });
  if (pods.objects.empty()) {
    return ToldForward(NotFound(StrCat(owner.plural, " \"", name, "\" has no pod on this node")));
  }
  return ToldForward(WithPorts(options, *BestOf(pods.objects)));
}

std::optional<Forward> FindForward(Session& session, const ForwardOptions& options) {
  const size_t slash = options.target.find('/');
  if (slash != std::string::npos) {
    const std::string head = options.target.substr(0, slash);
    const std::string name = options.target.substr(slash + 1);
    if (FindResource(head) == Resource::kServices) return FindForService(session, options, name);
    if (const OwnerWord* owner = FindOwnerWord(head)) {
      return FindForOwner(session, options, *owner, name);
    }
  }
  const auto pod = FindPod(session, options.target);
  if (!pod) return std::nullopt;
  return ToldForward(WithPorts(options, *pod));
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
