// SPDX-License-Identifier: Apache-2.0
// DiskReserve: how much of a file system is left to others, in the terms of kubelet's evictionHard.
#pragma once

#include <cstdint>

namespace holdfast::model {

// A share of the whole or a number.
struct Threshold {
  double percent = 0;
  uint64_t absolute = 0;  // counts when `percent` is 0

  uint64_t Of(uint64_t total) const {
    if (percent <= 0) return absolute;
    return static_cast<uint64_t>(static_cast<double>(total) * percent / 100);
  }
};

// kubelet's defaults of imagefs.available and imagefs.inodesFree.
struct DiskReserve {
  Threshold bytes{15, 0};
  Threshold inodes{5, 0};
};

}  // namespace holdfast::model
