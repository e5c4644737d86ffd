// SPDX-License-Identifier: Apache-2.0
// How the agent's process is set up, begins anew and ends when it cannot be taken apart. Pods notice nothing of it.
#pragma once

#include <sys/resource.h>

#include <chrono>

namespace holdfast::agent {

// After it a start that failed for want of threads, descriptors, memory or space is tried again.
inline constexpr std::chrono::seconds kStartRetry{2};

// Before there are threads. `argv`: main's. Memory that is freed goes back to the kernel; a library that is refused a
// thread makes the process begin anew. `core_limit` is the limit of core dumps for the process that follows.
void SetUpProcess(char** argv, const rlimit& core_limit);

// The same process, the same program, from the beginning, after kStartRetry: what this one has under way bears being cut
// short at any instruction. For a limit that is reached now and need not be in a moment.
[[noreturn]] void BeginAnew();

// From now on the process has 20 s, less than the 90 s of systemd's TimeoutStopSec. Then it ends as it stands.
void LimitTimeToStop();

}  // namespace holdfast::agent
