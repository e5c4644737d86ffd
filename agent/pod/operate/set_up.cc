// SPDX-License-Identifier: Apache-2.0
// PodJob: volumes, and the sandbox with its network and the files that depend on the addresses.
#include <algorithm>
#include <utility>

#include "agent/kube/field_rules.h"
#include "agent/kube/volume_kinds.h"
#include "agent/objects/kept_inputs.h"
#include "agent/objects/no_inputs.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/operate/pod_job.h"
#include "agent/pod/spec/bandwidth.h"
#include "agent/pod/spec/claimed_volumes.h"
#include "agent/pod/spec/container_spec_builder.h"
#include "agent/pod/spec/files.h"
#include "agent/pod/spec/runtime_class.h"
#include "agent/pod/spec/volume_files.h"
#include "agent/view/pod_view_store.h"
#include "agent/volume/persistent_volumes.h"
#include "agent/volume/pod_files.h"
#include "agent/volume/volumes.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {

// What comes in between counts as not shown yet.
OperationEnd PodJob::EnsureAllVolumes() {
  const uint64_t version =
      input_.inputs == nullptr ? 0 : input_.inputs->VersionOf(PodUid(input_.pod->metadata().uid()));
  OperationEnd end = End(MakeVolumes());
  end.inputs_version = version;
  if (end.how == OperationEnd::How::kDone) KeepInputs();
  return end;
}

// For a start without the API server. Whatever is wrong with it does no harm now.
void PodJob::KeepInputs() {
  if (input_.inputs == nullptr) return;
  const auto inputs = CollectInputs(*input_.pod, *input_.inputs, services_.keep_secrets);
  if (!inputs) return;
  const std::string text = EncodeKept(*inputs);
  if (text.size() > kMostKept) {
    return Log(StrCat("what it is made from has ", text.size(), " bytes, more than ", kMostKept,
                      ": it is not kept for a start without the API server"));
  }
  if (auto saved = services_.state.SaveInputs(*input_.pod, text); !saved) {
    Log(StrCat("keep inputs: ", saved.error().message(), ", ignoring"));
  }
}

Result<void> PodJob::MakeVolumes() {
  const auto node = services_.node();
  const NoInputs none;
  BuiltVolumes built =
      BuildVolumeContents(*input_.pod, input_.inputs != nullptr ? *input_.inputs : none, *node);
  auto ensured = EnsureVolumes(*input_.pod, paths_, node->memory_allocatable_bytes, built.contents);
  if (!built.errors.empty()) return std::move(built.errors.front());
  RETURN_IF_ERROR(ensured);
  RETURN_IF_ERROR(MakePersistentVolumes(node->node_name));
  HOLDFAST_PAUSE_POINT("agent.pod.volumes_ready");
  return {};
}

// What a claim is bound to must be known once: what lies on the node already needs nobody any more.
Result<void> PodJob::MakePersistentVolumes(const std::string& node_name) {
  if (!kube::HasPersistent(input_.pod->spec())) return {};
  ASSIGN_OR_RETURN(const PlacedVolumes placed, ReadPlacedVolumes(paths_));
  const std::vector<std::string> standing =
      StandingVolumes(PodUid(input_.pod->metadata().uid()), placed, services_.runtime);
  const NoInputs none;
  ClaimedVolumes claimed =
      BuildClaimedVolumes(*input_.pod, input_.inputs != nullptr ? *input_.inputs : none, node_name,
                          services_.node_labels(), standing);
  const VolumeMounters mounters{services_.csi, services_.nfs, services_.runtime,
                                [this](const corev1::Pod& pod, const EventNote& note) {
                                  services_.view.AddEvents(pod, {note});
                                }};
  std::vector<Error> errors =
      EnsurePersistentVolumes(*input_.pod, paths_, claimed.volumes, mounters, cancelled_);
  GrowClaims(claimed.volumes);
  for (auto& [name, error] : claimed.errors) {
    if (std::ranges::find(standing, name) == standing.end()) errors.push_back(std::move(error));
  }
  if (!errors.empty()) return std::move(errors.front());
  return {};
}

// 1. namespaces and cgroup; 2. links and addresses; 3. the files that depend on the addresses.
Result<std::vector<std::string>> PodJob::MakeSandbox() {
  const auto node = services_.node();
  const NoInputs none;
  RETURN_IF_ERROR(CheckRuntimeClass(*input_.pod, input_.inputs != nullptr ? *input_.inputs : none,
                                    node->runtime_handlers));
  if (!input_.pod->spec().hostnetwork()) RETURN_IF_ERROR(CheckHostname(*input_.pod, *node));
  const model::SandboxSpec spec = BuildSandboxSpec(*input_.pod, *node);
  RETURN_IF_ERROR(services_.runtime.EnsureSandbox(spec));
  HOLDFAST_PAUSE_POINT("agent.pod.sandbox_made");
  if (GivesUp()) return Conflict("not wanted any more");
  const ResolvConf resolv_conf = ResolvConfFile(*input_.pod, *node);
  ASSIGN_OR_RETURN(std::vector<std::string> ips, MakeNetwork(spec, resolv_conf));
  RETURN_IF_ERROR(WriteManagedFiles(ips, resolv_conf));
  ReserveMessages();
  HOLDFAST_PAUSE_POINT("agent.pod.files_written");
  return ips;
}

// Before any container of the pod can fill the room that they share. Ignored: the start tries again
// and tells.
void PodJob::ReserveMessages() {
  for (const SpecContainer& c : ContainersOf(*input_.pod)) {
    const auto attempt = input_.attempts.find(c.name());
    if (attempt == input_.attempts.end() || c.spec->terminationmessagepath().empty()) continue;
    (void)MakeTerminationLog(paths_.TerminationLog(c.name(), attempt->second));
  }
}

Result<std::vector<std::string>> PodJob::MakeNetwork(const model::SandboxSpec& spec,
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

Result<void> PodJob::WriteManagedFiles(const std::vector<std::string>& pod_ips,
                                       const ResolvConf& resolv_conf) {
  const auto node = services_.node();
  RETURN_IF_ERROR(EnsurePodFiles(paths_));
  ASSIGN_OR_RETURN(DirFd dir, sys::OpenDir(paths_.Files()));
  for (const auto& [reason, message] : resolv_conf.warnings) {
    events_.push_back({true, reason, message, "", false});
  }
  const auto write = [&](const char* name, const std::string& text) {
    return sys::WriteFileAtomicAt(dir.get(), name, text, 0644, false);
  };
  RETURN_IF_ERROR(write("resolv.conf", resolv_conf.text));
  RETURN_IF_ERROR(write("hostname", PodHostname(*input_.pod, *node) + "\n"));
  // The last: where it is, all are.
  return write("etc-hosts", HostsFile(*input_.pod, *node, pod_ips));
}

}  // namespace holdfast::agent
