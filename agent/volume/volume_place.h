// SPDX-License-Identifier: Apache-2.0
// Where a volume lies on the node. Value types.
#pragma once

#include <map>
#include <string>

#include "holdfast/model/container_spec.h"

namespace holdfast::agent {

struct VolumePlace {
  std::string path;        // absolute
  bool read_only = false;  // whatever a container wishes
  std::string root =
      {};  // no link is followed on the way from there (model::MountSpec::source_root)
  bool relabel = false;  // model::MountSpec::relabel
  bool operator==(const VolumePlace&) const = default;
};

// By the volume's name in the pod.
using VolumePlaces = std::map<std::string, VolumePlace>;

// A volume that is a block device.
struct DevicePlace {
  model::BlockDevice device;
  bool read_only = false;
  bool operator==(const DevicePlace&) const = default;
};
using DevicePlaces = std::map<std::string, DevicePlace>;

}  // namespace holdfast::agent
