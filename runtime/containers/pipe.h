// SPDX-License-Identifier: Apache-2.0
// Both ends of a pipe(2), closed on exec.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// `flags`: O_NONBLOCK.
inline Result<Pipe> MakePipe(int flags = 0) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC | flags) != 0) return Error::FromErrno(errno, "pipe2");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace holdfast::runtime
