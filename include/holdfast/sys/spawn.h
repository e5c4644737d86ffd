// SPDX-License-Identifier: Apache-2.0
// Another program as a child. Thread-safe: no state.
// Source: posix_spawn(3).
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::sys {

// What a program begins with; borrowed for the time of the call.
struct ChildFds {
  int in = -1;
  int out = -1;
  int err = -1;
  int further = -1;  // descriptor 3 of the program; -1: none
  bool own_group =
      false;  // it leads a process group of its own, so that all it starts can be ended
};

// argv[0], looked for in PATH when it holds no slash, with no signal blocked or ignored and no other descriptor of
// the caller's, whether it closes on exec or not.
// `environment` as in environ(7). The caller reaps the child.
Result<pid_t> Spawn(std::vector<std::string> argv, const ChildFds& fds, char* const* environment);

// The environment that our own long-lived programs are started with, ending with nullptr: nothing
// of the caller's, so that no secret of it is in a process that containers descend from; in a build
// with pause points (pause_point.h) the two variables that arm them. Borrows from environ(7).
std::vector<char*> OwnProgramEnvironment();

}  // namespace holdfast::sys
