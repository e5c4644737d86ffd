// SPDX-License-Identifier: Apache-2.0
#include "agent/evict/storage_watch.h"

#include <sys/resource.h>

#include <utility>
#include <vector>

#include "agent/kube/field_rules.h"
#include "agent/kube/pod_resources.h"
#include "agent/kube/pod_status.h"
#include "agent/kube/volume_kinds.h"
#include "agent/stats/pod_storage.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr int kLeastPriority = 19;

bool IsWatched(const core::Pod& pod) {
  return !kube::IsTerminalPhase(pod.status().phase()) && !pod.metadata().has_deletiontimestamp() &&
         HasStorageLimits(pod.spec());
}

}  // namespace

Result<void> StorageWatch::Start(std::chrono::milliseconds period) {
  return thread_.Start(
      "storage-watch", std::chrono::milliseconds(0), [this, period](const std::stop_token& stop) {
        (void)::setpriority(PRIO_PROCESS, 0, kLeastPriority);  // of this thread; best effort
        Look(stop);
        return period;
      });
}

void StorageWatch::Look(const std::stop_token& stop) {
  std::vector<PodPtr> watched;
  std::map<std::string, std::set<std::string>> told;
  for (const PodPtr& pod : parts_.pods.ListPods()) {
    if (!IsWatched(*pod)) continue;
    (void)Count(*pod);  // what it has is to be counted
    const std::string& uid = pod->metadata().uid();
    if (const auto known = told_.find(uid); known != told_.end()) told.insert(*known);
    watched.push_back(pod);
  }
  told_ = std::move(told);
  trees_.Measure(stop);
  for (const PodPtr& pod : watched) Judge(*pod);
}

void StorageWatch::Add(const std::string& path, uint64_t& bytes, Counted& counted) {
  const auto size = trees_.Get(path);
  if (!size) return;
  bytes += size->bytes;
  counted.whole = counted.whole && size->whole;
}

StorageWatch::Counted StorageWatch::Count(const Pod& pod) {
  const auto& meta = pod.metadata();
  const PodPaths paths(parts_.instance, PodUid(meta.uid()), meta.namespace_(), meta.name());
  Counted counted;
  const auto& status = pod.status();
  for (const auto* list : {&status.initcontainerstatuses(), &status.containerstatuses(),
                           &status.ephemeralcontainerstatuses()}) {
    for (const core::ContainerStatus& one : *list) {
      if (!one.state().has_running()) continue;
      uint64_t& bytes = counted.use.containers[one.name()];
      Add(WrittenLayerOf(paths, one), bytes, counted);
      if (const auto logs = SizeOfLogs(paths, one.name())) bytes += logs->bytes;
    }
  }
  for (const core::Volume& volume : pod.spec().volumes()) {
    if (!kube::IsDiskEmptyDir(volume.volumesource())) continue;
    Add(paths.EmptyDir(volume.name()), counted.use.empty_dirs[volume.name()], counted);
  }
  return counted;
}

void StorageWatch::Judge(const Pod& pod) {
  const Counted counted = Count(pod);
  const auto eviction = AboveStorageLimits(pod.spec(), counted.use);
  if (!eviction && !counted.whole) {
    return TellOnce(pod, StrCat("local storage has more than ", parts_.trees.most_inodes,
                                " files in one place: only a part of it is held to its limits"));
  }
  if (!eviction) return;
  // As by a kubelet, for which a pod of a file is critical.
  if (kube::IsCriticalPod(pod))
    return TellOnce(pod, eviction->why + "A critical or static pod is not evicted.");
  parts_.evict(PodUid(pod.metadata().uid()), *eviction);
}

void StorageWatch::TellOnce(const Pod& pod, const std::string& message) {
  if (!told_[pod.metadata().uid()].insert(message).second) return;
  parts_.tell(pod, {true, kube::kFieldNotHonoured, message, "", false});
}

}  // namespace holdfast::agent
