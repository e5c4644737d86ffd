// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/writeback.h"

#include <fcntl.h>

namespace holdfast::sys {
namespace {

constexpr uint64_t kAtATime = 8 << 20;

// `bytes` 0: to the end of the file. What fails here the sync does, and tells.
void Begin(int fd, uint64_t offset, uint64_t bytes) {
  (void)::sync_file_range(fd, static_cast<off64_t>(offset), static_cast<off64_t>(bytes),
                          SYNC_FILE_RANGE_WRITE);
}

}  // namespace

void Writeback::Reached(int fd, uint64_t end) {
  if (end - begun_ < kAtATime) return;
  Begin(fd, begun_, end - begun_);
  begun_ = end;
}

void Writeback::Rest(int fd) const { Begin(fd, begun_, 0); }

}  // namespace holdfast::sys
