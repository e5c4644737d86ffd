// SPDX-License-Identifier: Apache-2.0
// How much of a file system images may fill: less than all of it, since the node, its pods' logs
// and their volumes need it too. The measure is a kubelet's: where images would make it evict pods.
#pragma once

#include <cstdint>

#include "holdfast/base/result.h"
#include "holdfast/model/disk_reserve.h"

namespace holdfast::runtime {

// kResourceExhausted when `fd`'s file system has no more than the reserve left for unprivileged
// users once `wanted` bytes were written. A file system that does not count is not limited.
Result<void> CheckRoom(int fd, const model::DiskReserve& reserve, uint64_t wanted = 0);

// How many files may be made on it until the reserve is reached; no limit where none are counted.
Result<uint64_t> RoomForFiles(int fd, const model::DiskReserve& reserve);

}  // namespace holdfast::runtime
