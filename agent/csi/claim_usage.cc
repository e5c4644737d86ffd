// SPDX-License-Identifier: Apache-2.0
#include "agent/csi/claim_usage.h"

#include <stop_token>

#include "agent/kube/volume_kinds.h"
#include "agent/pod/state/paths.h"

namespace holdfast::agent {

ClaimUsage::ClaimUsage(const model::Instance& instance, const CsiDrivers& drivers)
    : instance_(instance),
      drivers_(drivers),
      places_({}, [this](const std::string& path, const std::stop_token&) { return Look(path); }) {}

std::map<std::string, FsUsage> ClaimUsage::Of(const ::k8s::io::api::core::v1::Pod& pod) {
  std::map<std::string, FsUsage> known;
  if (!kube::HasPersistent(pod.spec())) return known;
  const auto& meta = pod.metadata();
  const auto placed =
      ReadPlacedVolumes({instance_, PodUid(meta.uid()), meta.namespace_(), meta.name()});
  if (!placed) return known;
  for (const auto& [name, volume] : *placed) {
    if (!volume.ready) continue;
    {
      const std::lock_guard lock(mutex_);
      wanted_[volume.path] = volume;
    }
    if (const auto usage = places_.Get(volume.path)) known[name] = *usage;
  }
  return known;
}

std::optional<FsUsage> ClaimUsage::Look(const std::string& path) {
  PlacedVolume volume;
  {
    const std::lock_guard lock(mutex_);
    const auto wanted = wanted_.extract(path);
    if (wanted.empty()) return std::nullopt;
    volume = wanted.mapped();
  }
  if (volume.kind == "local") {
    return volume.block ? std::optional<FsUsage>() : ReadFsUsage(path);
  }
  const auto driver = volume.kind == "csi" ? drivers_.Find(volume.driver) : nullptr;
  if (driver == nullptr || !driver->info.tells_usage) return std::nullopt;
  const auto usage = driver->client->Usage(volume.handle, path);
  if (!usage) return std::nullopt;  // as for a kubelet: a volume without numbers
  return FsUsage{usage->bytes.available,  usage->bytes.total,  usage->bytes.used,
                 usage->inodes.available, usage->inodes.total, usage->inodes.used};
}

}  // namespace holdfast::agent
