// SPDX-License-Identifier: Apache-2.0
// What a volume of a pod comes to that outlives the pod, or that somebody else makes: a PersistentVolume by its claim, or
// one of the same kinds that the pod names itself. Value types.
#pragma once

#include <map>
#include <string>

#include "k8s/core/v1/persistent_volume.pb.h"

namespace holdfast::agent {

struct PersistentVolume {
  std::string
      name;  // of the PersistentVolume; of one that the pod names itself the volume's: what events call it
  ::k8s::io::api::core::v1::PersistentVolumeSpec spec;
  bool read_only = false;  // as the pod uses it
};

// By the volume's name in the pod.
using PersistentVolumes = std::map<std::string, PersistentVolume>;

}  // namespace holdfast::agent
