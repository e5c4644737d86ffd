// SPDX-License-Identifier: Apache-2.0
// v1's freezer: a frozen process does not die of SIGKILL. We never freeze; a container that may
// mount can (cgroup v2's freezer lets SIGKILL through). Thread-safe: no state.
#pragma once

#include "holdfast/base/result.h"
#include "runtime/cgroup/backend.h"

namespace holdfast::runtime {

// Thaws `cgroup` and all below it; nothing where it has no freezer.
Result<void> Thaw(const Cgroup& cgroup);

}  // namespace holdfast::runtime
