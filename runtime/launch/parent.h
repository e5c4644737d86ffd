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

// Whether the child clones the container's process, as containers with a user namespace need it.
bool HasSuccessor(const model::Plan& plan);
// Whether anything of the child outlives it: then it begins only once its start is recorded. The
// namespaces of a sandbox without an init end with the child and the descriptors it sends.
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
// Says what a failure of clone3 means for this plan.
Error ExplainCloneFailure(Error error, const model::Plan& plan);

// Children of the caller are born in the plan's pid namespace between Enter() and Leave(); not for
// a plan with a successor, which is born there later.
class PidNamespaceVisit {
 public:
  Result<void> Enter(const LaunchContext& context, const model::Plan& plan,
                     std::span<const UniqueFd> fds);
  // A launcher that cannot leave would start every further container in a stranger's pid namespace:
  // it aborts, and its holder starts another one.
  void Leave();

 private:
  NsFd own_;
};

// uid_map, gid_map of a SandboxPlan with a user namespace.
Result<void> WriteIdMaps(const LaunchContext& context, const model::Plan& plan, pid_t pid);

}  // namespace holdfast::runtime
