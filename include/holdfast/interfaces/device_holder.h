// SPDX-License-Identifier: Apache-2.0
// DeviceHolder: block devices that pods have as volumes are kept open, whichever of our processes ends. A device that nobody
// has open can be taken away, and its number given to another one; a container knows it by the number only.
// Thread-safe; calls block until the keeper has answered.
#pragma once

#include <string>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"

namespace holdfast {

class DeviceHolder {
 public:
  virtual ~DeviceHolder() = default;
  // `device`: an opened block device, borrowed. Of a volume again replaces.
  virtual Result<void> HoldDevice(const PodUid& uid, const std::string& volume, int device) = 0;
  // What is held; kNotFound: nothing, as after a reboot.
  virtual Result<model::BlockDevice> HeldDevice(const PodUid& uid, const std::string& volume) = 0;
  // Absent is success.
  virtual Result<void> LetGoOfDevice(const PodUid& uid, const std::string& volume) = 0;
};

}  // namespace holdfast
