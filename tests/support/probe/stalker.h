// SPDX-License-Identifier: Apache-2.0
// The attacker of catalogue row PR-01: looks for processes that are new in its pid namespace and
// takes what it can before they are the container's program. One thread, polling. On standard
// output: a line "." when it looks, "!…" for each catch, and at SIGTERM how often each thing
// happened:
//   seen N        new processes
//   unborn N      of these, not yet the program (its binary is a memfd, or not the container's)
//   opened N      descriptors of theirs that are directories, or paths that led to `secret`
//   excess N      had a capability that the stalker does not have
//   unfiltered N  had no seccomp filter although the stalker has one
#pragma once

#include <string>

int Stalk(const char* secret);
