// SPDX-License-Identifier: Apache-2.0
// v1's cpuset: a new cgroup of it has no CPU and no memory node, and takes no process before it got
// some. Ours have all that their parents have. What is no cpuset is left alone. Thread-safe: no
// state. Source: Documentation/admin-guide/cgroup-v1/cpusets.rst.
#pragma once

#include <string>

#include "holdfast/base/result.h"
#include "runtime/cgroup/backend.h"

namespace holdfast::runtime {

// Each part of `path` below `mount` that has no CPUs gets its parent's.
Result<void> FillCpusets(int mount, const std::string& path);
// The same for `child` of `parent`; and what is made below it has them from the beginning
// (cgroup.clone_children), so that no start pays for it.
Result<void> FillCpusetsForChildren(const Cgroup& parent, const Cgroup& child);

}  // namespace holdfast::runtime
