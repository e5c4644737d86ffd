// SPDX-License-Identifier: Apache-2.0
// NodeCsiMounter: the CsiMounter of a node, by the plugins that are registered on it. What it keeps of a volume lies at
//
//   <root_dir>/plugins/kubernetes.io/csi/<driver>/<SHA-256 of the handle>/
//     vol_data.json       which volume it is, as a kubelet writes it
//     users/<pod uid>~<PersistentVolume>  made before anything is asked for a pod, removed after it is gone
//     globalmount/        where the plugin stages it, once for all pods of the node
//   <root_dir>/plugins/kubernetes.io/csi/volumeDevices/
//     staging/<volume>/           the same of a block device
//     publish/<volume>/<pod uid>  the device, put there by the plugin for a pod
//
// so that whoever takes the last user away also unstages it, whichever agent made it. Volumes that a pod names itself are
// that pod's alone and have none of this. Plugins have these directories mounted and may put links there: below root_dir none
// is followed. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "agent/csi/csi_drivers.h"
#include "agent/csi/volume_locks.h"
#include "agent/volume/csi_mounter.h"
#include "agent/volume/ownership_progress.h"

namespace holdfast::agent {

class NodeCsiMounter : public CsiMounter {
 public:
  // `drivers` is borrowed.
  NodeCsiMounter(const std::string& root_dir, const CsiDrivers& drivers,
                 TellOwnership tell_ownership = {});

  // As a Node's volumesInUse calls them: from before a volume is asked for until nothing is left of it.
  std::vector<std::string> VolumesInUse() const;

  Result<void> Mount(const ::k8s::io::api::core::v1::Pod& pod, const PersistentVolume& volume,
                     const PlacedVolume& place, const std::atomic<bool>& cancelled) override;
  Result<void> Expand(const PersistentVolume& volume, const PlacedVolume& place,
                      const CsiSecrets& secrets, int64_t bytes,
                      const std::atomic<bool>& cancelled) override;
  Result<void> Unmount(const PodUid& uid, const PlacedVolume& place) override;

 private:
  struct Work;
  void ReadVolumesInUse();
  Result<void> MarkUse(const Work& work);
  std::string VolumeDir(const std::string& driver, const std::string& handle) const;
  std::string StagingPath(const PlacedVolume& place) const;
  std::string StagingOf(const CsiDriver& driver, const PlacedVolume& place) const;
  Result<void> Stage(const Work& work);
  Result<void> Publish(const Work& work) const;
  Result<void> RemovePlace(const std::string& path) const;
  Result<void> RemoveStaging(const PlacedVolume& place, const std::string& staging) const;
  Result<void> RemoveIfEmpty(const std::string& directory) const;
  Result<void> Unpublish(const CsiDriver& driver, const PlacedVolume& place) const;
  Result<void> Unstage(const CsiDriver& driver, const PlacedVolume& place, const PodUid& uid);

  const std::string root_dir_, volumes_dir_;
  const CsiDrivers& drivers_;
  const TellOwnership tell_ownership_;
  VolumeLocks locks_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> in_use_;  // by their directories
};

}  // namespace holdfast::agent
