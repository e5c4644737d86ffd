// SPDX-License-Identifier: Apache-2.0
#include "agent/stats/node_stats.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "agent/kube/pod_resources.h"
#include "agent/kube/times.h"
#include "agent/kube/volume_kinds.h"
#include "agent/pod/state/paths.h"
#include "agent/stats/pod_storage.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr size_t kMostOfAProcFile = 64u << 10;
constexpr char kAgent[] = "agent";  // no cgroup has such a path

// "containerd://ID" without its scheme.
std::string IdOf(const core::ContainerStatus& status) {
  const size_t scheme = status.containerid().find("://");
  return scheme == std::string::npos ? "" : status.containerid().substr(scheme + 3);
}

// A process of the cgroup, as the kernel names it now.
pid_t FirstProcess(const runtime::CgroupLayout& layout, const std::string& cgroup) {
  const auto text = sys::ReadFileAt(
      AT_FDCWD, StrCat(layout.hierarchies.front().mount_point, cgroup, "/cgroup.procs"),
      kMostOfAProcFile);
  pid_t pid = 0;
  if (text) std::istringstream(*text) >> pid;
  return pid;
}

// The pod's, through one of its processes. A process that ended meanwhile is looked for in the cgroup afterwards, so
// that never another one's network is shown.
std::vector<InterfaceStats> PodInterfaces(const runtime::CgroupLayout& layout,
                                          const PodStats& pod) {
  for (const ContainerStats& container : pod.containers) {
    const pid_t pid = FirstProcess(layout, container.cgroup);
    if (pid <= 0) continue;
    const auto text =
        sys::ReadFileAt(AT_FDCWD, StrCat("/proc/", pid, "/net/dev"), kMostOfAProcFile);
    if (text && FirstProcess(layout, container.cgroup) == pid) return ParseInterfaces(*text);
  }
  return {};
}

// The files of its log directory, on the file system that they lie on.
std::optional<FsUsage> LogUsage(const PodPaths& paths, const std::string& container) {
  const auto size = SizeOfLogs(paths, container);
  auto usage = size ? ReadFsUsage(paths.LogRoot()) : std::nullopt;
  if (!usage) return std::nullopt;
  usage->used = size->bytes;
  usage->inodes_used = size->inodes;
  return usage;
}

// This process: the part of a kubelet and of its runtime.
runtime::CgroupStatistics AgentUsage() {
  runtime::CgroupStatistics out;
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  out.cpu.nanos =
      static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
  const auto text = sys::ReadFileAt(AT_FDCWD, "/proc/self/status", kMostOfAProcFile);
  if (text) {
    out.memory.rss = MeminfoBytes(*text, "RssAnon:");
    out.memory.usage = out.memory.working_set = MeminfoBytes(*text, "VmRSS:");
  }
  return out;
}

}  // namespace

NodeStats::NodeStats(NodeStatsOptions options) : options_(std::move(options)) {}

Result<std::shared_ptr<const NodeSample>> NodeStats::Sample(std::chrono::milliseconds fresh_for) {
  const std::lock_guard lock(mutex_);
  const WallTime now = options_.clock.Wall();
  if (last_ && now >= last_->at && now - last_->at < fresh_for) return last_;
  if (!layout_) {
    ASSIGN_OR_RETURN(layout_, runtime::DetectCgroupLayout(options_.instance.cgroup_root));
  }
  auto sample = std::make_shared<NodeSample>();
  sample->at = now;
  Rates rates;
  ReadNode(*sample, rates);
  for (const PodPtr& pod : options_.pods.ListPods()) ReadPod(*pod, *sample, rates);
  rates_ = std::move(rates);
  last_ = std::move(sample);
  return last_;
}

void NodeStats::ReadNode(NodeSample& sample, Rates& rates) const {
  const model::Instance& instance = options_.instance;
  sample.machine = ReadMachineStats();
  std::erase_if(sample.machine.interfaces, [&](const InterfaceStats& one) {
    return one.name.starts_with(instance.interface_prefix) || one.name.starts_with("veth");
  });
  sample.node = WithRate("/", sample.machine.used, rates);
  sample.agent = WithRate(kAgent, AgentUsage(), rates);
  sample.all_pods = ReadUsage(
      StrCat(instance.cgroup_parent, "/", runtime::PodsRootName(options_.naming)), sample, rates);
  sample.root_fs = ReadFsUsage(instance.root_dir);
  sample.image_fs = ReadFsUsage(instance.ImageDir());
}

UsageSample NodeStats::WithRate(const std::string& key, runtime::CgroupStatistics used,
                                Rates& rates) const {
  UsageSample out{options_.clock.Wall(), used, std::nullopt};
  const auto before = rates_.find(key);
  if (before != rates_.end() && out.at > before->second.at &&
      out.used.cpu.nanos >= before->second.nanos) {
    const auto passed = std::chrono::duration<double>(out.at - before->second.at).count();
    out.nano_cores = static_cast<uint64_t>(
        static_cast<double>(out.used.cpu.nanos - before->second.nanos) / passed);
  }
  rates[key] = {out.at, out.used.cpu.nanos};
  return out;
}

std::optional<UsageSample> NodeStats::ReadUsage(const std::string& cgroup, NodeSample& sample,
                                                Rates& rates) const {
  auto used = runtime::ReadStatistics(*layout_, cgroup);
  if (used) return WithRate(cgroup, *used, rates);
  // Gone since its pod was listed, most likely.
  if (used.error().code() != Code::kNotFound) sample.failed = true;
  return std::nullopt;
}

std::string NodeStats::PodCgroup(const core::Pod& pod) const {
  const model::QosClass qos = kube::ComputeQosClass(pod.spec());
  const std::string of_class = runtime::QosDirName(options_.naming, qos);
  return StrCat(options_.instance.cgroup_parent, "/", runtime::PodsRootName(options_.naming),
                of_class.empty() ? "" : "/", of_class, "/",
                runtime::PodDirName(options_.naming, qos, PodUid(pod.metadata().uid())));
}

// Its part of the node's file system; nullopt until it was counted.
std::optional<FsUsage> NodeStats::UsageOfTree(const NodeSample& sample, const std::string& path) {
  const auto size = trees_.Get(path);
  auto out = sample.root_fs;
  if (!size || !size->whole || !out) return std::nullopt;
  out->used = size->bytes;
  out->inodes_used = size->inodes;
  return out;
}

void NodeStats::ReadContainers(const core::Pod& pod, NodeSample& sample, Rates& rates,
                               PodStats& out) {
  const PodPaths paths(options_.instance, PodUid(out.uid), out.pod_namespace, out.name);
  for (const auto* statuses :
       {&pod.status().initcontainerstatuses(), &pod.status().containerstatuses(),
        &pod.status().ephemeralcontainerstatuses()}) {
    for (const auto& status : *statuses) {
      if (!status.state().has_running()) continue;
      const std::string id = IdOf(status);
      const std::string cgroup =
          StrCat(out.cgroup, "/", runtime::ContainerDirName(options_.naming, ContainerId(id)));
      const auto usage = ReadUsage(cgroup, sample, rates);
      if (!usage) continue;
      out.containers.push_back({status.name(), id, status.image(), cgroup,
                                kube::ToWallTime(status.state().running().startedat()), *usage,
                                UsageOfTree(sample, WrittenLayerOf(paths, status)),
                                LogUsage(paths, status.name())});
    }
  }
}

void NodeStats::ReadVolumes(const core::Pod& pod, const NodeSample& sample, PodStats& out) {
  const PodPaths paths(options_.instance, PodUid(out.uid), out.pod_namespace, out.name);
  for (const core::Volume& volume : pod.spec().volumes()) {
    if (!kube::IsDiskEmptyDir(volume.volumesource())) continue;
    const auto usage = UsageOfTree(sample, paths.EmptyDir(volume.name()));
    if (usage) out.volumes.push_back({volume.name(), *usage});
  }
  if (!options_.claims) return;
  const auto claims = options_.claims(pod);
  for (const core::Volume& volume : pod.spec().volumes()) {
    const std::string claim = kube::ClaimNameOf(pod, volume);
    const auto usage = claims.find(volume.name());
    if (!claim.empty() && usage != claims.end()) {
      out.volumes.push_back({volume.name(), usage->second, claim});
    }
  }
}

void NodeStats::ReadPod(const core::Pod& pod, NodeSample& sample, Rates& rates) {
  PodStats out{.name = pod.metadata().name(),
               .pod_namespace = pod.metadata().namespace_(),
               .uid = pod.metadata().uid(),
               .cgroup = PodCgroup(pod),
               .started = kube::ToWallTime(pod.status().starttime()),
               .host_network = pod.spec().hostnetwork(),
               .usage = {},
               .containers = {},
               .interfaces = {},
               .volumes = {}};
  out.usage = ReadUsage(out.cgroup, sample, rates);
  if (!out.usage) return;  // it runs no more, or not yet
  ReadContainers(pod, sample, rates, out);
  ReadVolumes(pod, sample, out);
  if (!out.host_network) out.interfaces = PodInterfaces(*layout_, out);
  sample.pods.push_back(std::move(out));
}

}  // namespace holdfast::agent
