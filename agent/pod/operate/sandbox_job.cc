// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/sandbox_job.h"

#include <utility>

#include "agent/kube/field_rules.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/operate/managed_files.h"
#include "agent/pod/spec/bandwidth.h"
#include "agent/pod/spec/container_spec_builder.h"
#include "agent/pod/spec/runtime_class.h"
#include "agent/volume/pod_files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {

OperationEnd SandboxJob::CarryOut() {
  auto ips = Make();
  if (gave_up_) return Cancelled();
  if (!ips) return End(std::move(ips.error()).Wrap("Failed to create pod sandbox"));
  OperationEnd end = End({});
  end.pod_ips = std::move(*ips);
  return end;
}

// 1. namespaces and cgroup; 2. links and addresses; 3. the files that depend on the addresses.
Result<std::vector<std::string>> SandboxJob::Make() {
  const auto node = services_.node();
  RETURN_IF_ERROR(CheckRuntimeClass(*input_.pod, Inputs(), node->runtime_handlers));
  if (!input_.pod->spec().hostnetwork()) RETURN_IF_ERROR(CheckHostname(*input_.pod, *node));
  const model::SandboxSpec spec = BuildSandboxSpec(*input_.pod, *node);
  RETURN_IF_ERROR(services_.runtime.EnsureSandbox(spec));
  HOLDFAST_PAUSE_POINT("agent.pod.sandbox_made");
  if (GivesUp()) return Conflict("not wanted any more");
  const ResolvConf resolv_conf = ResolvConfFile(*input_.pod, *node);
  ASSIGN_OR_RETURN(std::vector<std::string> ips, MakeNetwork(spec, resolv_conf));
  for (const auto& [reason, message] : resolv_conf.warnings) {
    events_.push_back({true, reason, message, "", false});
  }
  RETURN_IF_ERROR(WriteManagedFiles(*input_.pod, *node, paths_, ips, resolv_conf));
  ReserveMessages();
  HOLDFAST_PAUSE_POINT("agent.pod.files_written");
  return ips;
}

// Before any container of the pod can fill the room that they share. Ignored: the start tries again
// and tells.
void SandboxJob::ReserveMessages() {
  for (const SpecContainer& c : ContainersOf(*input_.pod)) {
    const auto attempt = input_.attempts.find(c.name());
    if (attempt == input_.attempts.end() || c.spec->terminationmessagepath().empty()) continue;
    (void)MakeTerminationLog(paths_.TerminationLog(c.name(), attempt->second));
  }
}

Result<std::vector<std::string>> SandboxJob::MakeNetwork(const model::SandboxSpec& spec,
                                                         const ResolvConf& resolv_conf) {
  if (spec.host_network) return std::vector<std::string>();
  ASSIGN_OR_RETURN(const NsFd netns, services_.runtime.NetworkNamespace(spec.uid));
  PodNetworkRequest request;
  request.uid = spec.uid;
  request.pod_namespace = spec.pod_namespace;
  request.pod_name = spec.pod_name;
  request.network_namespace = netns.get();
  request.host_ports = HostPorts(*input_.pod);
  ASSIGN_OR_RETURN(request.bandwidth, BandwidthOf(*input_.pod));
  request.dns = {resolv_conf.servers, resolv_conf.searches, resolv_conf.options};
  const auto& annotations = input_.pod->metadata().annotations();
  request.annotations = {annotations.begin(), annotations.end()};
  request.qos = spec.qos;
  ASSIGN_OR_RETURN(std::vector<std::string> ips, services_.network.Setup(request));
  for (std::string& text : services_.network.LeftOut(request)) {
    events_.push_back({true, kube::kFieldNotHonoured, std::move(text), "", false});
  }
  HOLDFAST_PAUSE_POINT("agent.pod.network_made");
  return ips;
}

}  // namespace holdfast::agent
