// SPDX-License-Identifier: Apache-2.0
// What a system call of a limit program came to: a failure ends the process, a child's as well.
#pragma once

#include <unistd.h>

#include <cstdio>

namespace holdfast::bench {

inline long Must(long result, const char* what) {
  if (result >= 0) return result;
  std::perror(what);
  ::_exit(1);
}

}  // namespace holdfast::bench
