// SPDX-License-Identifier: Apache-2.0
// A pod's volume that is a block device: found once, by a descriptor, and kept open from then on until the volume is taken
// away (DeviceHolder). What containers get is what is held, whatever lies at its path by then. Thread-safe.
#pragma once

#include <string>

#include "agent/volume/placed_volumes.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/interfaces/device_holder.h"

namespace holdfast::agent {

// Opens the block device at `path`, through links as below /dev/disk; anything else is looked at only, never opened. The
// descriptor keeps no mount busy.
Result<UniqueFd> OpenBlockDevice(const std::string& path);

// `name`: the volume's in the pod.
Result<void> HoldBlockDevice(DeviceHolder& devices, const PodUid& uid, const std::string& name,
                             const PlacedVolume& volume);

// What is held of a volume that was placed; it is held anew where everybody who held it has died.
Result<model::BlockDevice> BlockDeviceOf(DeviceHolder& devices, const PodUid& uid,
                                         const std::string& name, const PlacedVolume& volume);

}  // namespace holdfast::agent
