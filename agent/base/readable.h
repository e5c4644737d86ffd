// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

namespace holdfast::agent {

// Now, or it is at its end. For whoever must not take asio's word: a wait there may end with an event that was on its way to a
// descriptor which was closed in the same turn, when the one that is waited for has got its place.
inline bool IsReadable(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  return ::poll(&wanted, 1, 0) > 0;
}

}  // namespace holdfast::agent
