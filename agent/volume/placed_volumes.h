// SPDX-License-Identifier: Apache-2.0
// Which PersistentVolumes a pod has, and where they lie on the node: pods/<uid>/volumes.json. It is written before anything
// is mounted, so that whoever comes after an agent that was killed knows what to take away, and where containers find
// their volumes, without an API server. Thread-safe for different pods.
#pragma once

#include <map>
#include <string>

#include "agent/pod/state/paths.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct PlacedVolume {
  std::string name;  // of the PersistentVolume
  std::string kind;  // "hostPath", "local", "csi", "nfs"
  std::string path;  // what containers see; of a block device where its node lies on the host
  bool read_only = false;
  bool ready =
      false;  // everything was done for it; what is mounted may be gone since, as after a reboot
  std::string driver = {}, handle = {};  // of the kind csi
  bool block = false;
  bool bound = false;  // a directory of the node, bound to the pod's place for it
  bool operator==(const PlacedVolume&) const = default;
};

// By the volume's name in the pod.
using PlacedVolumes = std::map<std::string, PlacedVolume>;

// None is an empty one.
Result<PlacedVolumes> ReadPlacedVolumes(const PodPaths& paths);
Result<void> WritePlacedVolumes(const PodPaths& paths, const PlacedVolumes& volumes);

}  // namespace holdfast::agent
