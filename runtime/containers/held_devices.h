// SPDX-License-Identifier: Apache-2.0
// The block devices that the keeper keeps open for pods (holdfast/interfaces/device_holder.h). Thread-safe: no state.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"
#include "runtime/keeper/client/client.h"

namespace holdfast::runtime {

// kInvalidArgument: `device` is no block device.
Result<void> HoldDevice(const keeper::KeeperClient& keeper, const PodUid& uid,
                        const std::string& volume, int device);
Result<model::BlockDevice> HeldDevice(const keeper::KeeperClient& keeper, const PodUid& uid,
                                      const std::string& volume);
Result<void> LetGoOfDevice(const keeper::KeeperClient& keeper, const PodUid& uid,
                           const std::string& volume);

// All that are held, of whatever pod.
struct HeldVolume {
  PodUid uid;
  std::string volume;
};
Result<std::vector<HeldVolume>> ListHeldDevices(const keeper::KeeperClient& keeper);

}  // namespace holdfast::runtime
