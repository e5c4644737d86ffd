// SPDX-License-Identifier: Apache-2.0
// What poll(2) says of one descriptor at this moment. Thread-safe: no state.
#pragma once

#include <poll.h>

namespace holdfast::sys {

// There is something to read, or it is at its end; of a pidfd: the process has ended.
inline bool IsReadable(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  return ::poll(&wanted, 1, 0) > 0;
}

}  // namespace holdfast::sys
