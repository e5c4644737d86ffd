// SPDX-License-Identifier: Apache-2.0
// What kind of volume a source is. Pure.
#pragma once

#include <string>
#include <vector>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {

// configMap, secret, downwardAPI, projected: the agent writes the files, containers only read them.
inline bool HasWrittenFiles(const k8s::io::api::core::v1::VolumeSource& source) {
  return source.has_configmap() || source.has_secret() || source.has_downwardapi() ||
         source.has_projected();
}

// Files of it take room on the node's disk.
inline bool IsDiskEmptyDir(const k8s::io::api::core::v1::VolumeSource& source) {
  return source.has_emptydir() && source.emptydir().medium().empty();
}

// The volumes of kind `image` that a container mounts; they are the pod's.
inline std::vector<const k8s::io::api::core::v1::Volume*> MountedImages(
    const k8s::io::api::core::v1::PodSpec& pod,
    const k8s::io::api::core::v1::Container& container) {
  std::vector<const k8s::io::api::core::v1::Volume*> mounted;
  for (const auto& volume : pod.volumes()) {
    if (!volume.volumesource().has_image()) continue;
    for (const auto& mount : container.volumemounts()) {
      if (mount.name() != volume.name()) continue;
      mounted.push_back(&volume);
      break;
    }
  }
  return mounted;
}

// What outlives the pod, or is made by somebody else.
inline bool IsPersistent(const k8s::io::api::core::v1::VolumeSource& source) {
  return source.has_persistentvolumeclaim() || source.has_ephemeral() || source.has_csi() ||
         source.has_nfs();
}

inline bool HasPersistent(const k8s::io::api::core::v1::PodSpec& pod) {
  for (const auto& volume : pod.volumes()) {
    if (IsPersistent(volume.volumesource())) return true;
  }
  return false;
}

// The claim that a volume of the pod is made from, one of the pod's own (ephemeral) among them; "" for every other kind.
inline std::string ClaimNameOf(const k8s::io::api::core::v1::Pod& pod,
                               const k8s::io::api::core::v1::Volume& volume) {
  const auto& source = volume.volumesource();
  if (source.has_persistentvolumeclaim()) return source.persistentvolumeclaim().claimname();
  return source.has_ephemeral() ? pod.metadata().name() + "-" + volume.name() : std::string();
}

}  // namespace holdfast::agent::kube
