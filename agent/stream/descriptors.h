// SPDX-License-Identifier: Apache-2.0
// What every session knows of the descriptors of a program.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <chrono>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// The kernel moves a pseudo-terminal's last output from one side to the other after the program's
// end; it is through when the master says EIO, at the latest after this.
inline constexpr std::chrono::milliseconds kTerminalDrain{250};

inline Result<void> MakeNonBlocking(int fd) {
  if (fd < 0) return {};
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return Error::FromErrno(errno, "fcntl O_NONBLOCK");
  }
  return {};
}

}  // namespace holdfast::agent
