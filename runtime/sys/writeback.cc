// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/writeback.h"

#include <fcntl.h>

namespace holdfast::sys {

void BeginWriteback(int fd, uint64_t offset, uint64_t bytes) {
  (void)::sync_file_range(fd, static_cast<off64_t>(offset), static_cast<off64_t>(bytes),
                          SYNC_FILE_RANGE_WRITE);
}

}  // namespace holdfast::sys
