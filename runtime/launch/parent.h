// SPDX-License-Identifier: Apache-2.0
// What the launcher does for a child from outside: where it is cloned and what it cannot do itself.
// Single-thread, launcher only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/launch_plan.h"
#include "runtime/launch/launch.h"

namespace holdfast::runtime {

// Whether the child clones the container's process early, because its pid namespace must belong to
// the pod's user namespace. Nobody else is in that namespace.
bool HasSuccessor(const model::Plan& plan);
// Whether the process is born into a pid namespace in which others live already: an exec, a
// container with shareProcessNamespace. The child then does the whole recipe where none of them can
// see it, and clones the process at the very end (step_birth.cc).
bool IsBornLate(const model::Plan& plan);
// Whether anything of the child outlives it: then it begins only once its start is recorded. The
// namespaces of a sandbox without an init end with the child and the descriptors it sends. Where
// the process is born late it is that one which waits.
bool WaitsForGo(const model::Plan& plan);
// The cgroups that the child enters.
const model::CgroupPlan& CgroupOf(const model::Plan& plan);
// Whether the child keeps its rights on the host until ResetScheduling, which needs them.
bool MayRunAhead(const model::Plan& plan);
// CLONE_NEW* that can only be given to clone3; every other namespace is made by the child, so that
// the launcher does not wait for it.
uint64_t CloneFlags(const model::Plan& plan);
// The directory for CLONE_INTO_CGROUP, or -1.
int CgroupToEnter(const model::Plan& plan, std::span<const UniqueFd> fds);
// uid_map, gid_map of a SandboxPlan with a user namespace.
Result<void> WriteIdMaps(const LaunchContext& context, const model::Plan& plan, pid_t pid);

}  // namespace holdfast::runtime
