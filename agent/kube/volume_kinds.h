// SPDX-License-Identifier: Apache-2.0
// What kind of volume a source is. Pure.
#pragma once

#include <string>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {

// configMap, secret, downwardAPI, projected: the agent writes the files, containers only read them.
inline bool HasWrittenFiles(const k8s::io::api::core::v1::VolumeSource& source) {
  return source.has_configmap() || source.has_secret() || source.has_downwardapi() ||
         source.has_projected();
}

// What outlives the pod, or is made by somebody else.
inline bool IsPersistent(const k8s::io::api::core::v1::VolumeSource& source) {
  return source.has_persistentvolumeclaim() || source.has_ephemeral() || source.has_csi();
}

// The claim that a volume of the pod is made from, one of the pod's own (ephemeral) among them; "" for every other kind.
inline std::string ClaimNameOf(const k8s::io::api::core::v1::Pod& pod,
                               const k8s::io::api::core::v1::Volume& volume) {
  const auto& source = volume.volumesource();
  if (source.has_persistentvolumeclaim()) return source.persistentvolumeclaim().claimname();
  return source.has_ephemeral() ? pod.metadata().name() + "-" + volume.name() : std::string();
}

}  // namespace holdfast::agent::kube
