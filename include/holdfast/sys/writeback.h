// SPDX-License-Identifier: Apache-2.0
// Writeback: has the disk begin with a file while the rest of it is still to come, so that the sync at the end has less
// to wait for. Waits for room in the disk's queue only. Makes nothing durable and tells no error: both are the sync's.
// Not thread-safe. Source: sync_file_range(2).
#pragma once

#include <cstdint>

namespace holdfast::sys {

class Writeback {
 public:
  // All of the file before `end` is written. The disk is given 8 MiB at a time.
  void Reached(int fd, uint64_t end);
  // Nothing more will be written: the disk is given what is left.
  void Rest(int fd) const;

 private:
  uint64_t begun_ = 0;  // bytes that the disk has been given
};

}  // namespace holdfast::sys
