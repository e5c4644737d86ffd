// SPDX-License-Identifier: Apache-2.0
// PersistentVolumes of a pod on this node: hostPath, local, directories of NFS servers, and those of storage plugins;
// directories, or (local and of plugins) block devices, which are kept open (block_device.h). Thread-safe for different pods; calls may block on disk or on a dead network
// file system.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "agent/pod/state/paths.h"
#include "agent/volume/csi_mounter.h"
#include "agent/volume/nfs_mounter.h"
#include "agent/volume/ownership_progress.h"
#include "agent/volume/persistent_volume.h"
#include "agent/volume/placed_volumes.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/device_holder.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

// Who mounts and keeps; borrowed.
struct VolumeMounters {
  CsiMounter* csi;  // null on a node without storage plugins
  NfsMounter* nfs;  // null where nobody mounts
  DeviceHolder& devices;
  TellOwnership tell_ownership = {};  // of local volumes
};

// Puts them where containers find them. Idempotent; one that is there already is not touched. A volume that fails holds
// none of the others up; the errors are messages of FailedMount events.
std::vector<Error> EnsurePersistentVolumes(const ::k8s::io::api::core::v1::Pod& pod,
                                           const PodPaths& paths, const PersistentVolumes& wanted,
                                           const VolumeMounters& mounters,
                                           const std::atomic<bool>& cancelled);

// Takes away what the pod has, by what is known of it. Idempotent.
Result<void> ReleasePersistentVolumes(const PodUid& uid, const PodPaths& paths,
                                      const VolumeMounters& mounters);

// Those that were made and still stand, by their names in the pod.
std::vector<std::string> StandingVolumes(const PodUid& uid, const PlacedVolumes& placed,
                                         DeviceHolder& devices);

}  // namespace holdfast::agent
