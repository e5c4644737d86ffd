// SPDX-License-Identifier: Apache-2.0
// How much of a file system images may fill: less than all of it, since the node, its pods' logs
// and their volumes need it too. The measure is a kubelet's: where images would make it evict pods.
#pragma once

#include <cstdint>

#include "holdfast/base/result.h"
#include "holdfast/model/disk_reserve.h"

namespace holdfast::runtime {

// What may be made until the reserve is reached; no limit where the file system does not count.
struct Room {
  uint64_t bytes = 0;
  uint64_t files = 0;
};
Result<Room> RoomOn(int fd, const model::DiskReserve& reserve);

// kResourceExhausted when there is no room for another file, or for `wanted` bytes.
Result<void> CheckRoom(int fd, const model::DiskReserve& reserve, uint64_t wanted = 1);

}  // namespace holdfast::runtime
