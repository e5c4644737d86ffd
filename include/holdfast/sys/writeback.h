// SPDX-License-Identifier: Apache-2.0
// Thread-safe: no state. Source: sync_file_range(2).
#pragma once

#include <cstdint>

namespace holdfast::sys {

// The disk begins with `bytes` of a file, so that a sync that comes later has less to wait for; 0: with all from
// `offset` on. Waits for room in the disk's queue only. Makes nothing durable, and tells no error: both are the sync's.
void BeginWriteback(int fd, uint64_t offset, uint64_t bytes);

}  // namespace holdfast::sys
