// SPDX-License-Identifier: Apache-2.0
// Entering cgroups that clone3 cannot put a process into: v1, hybrid.
#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/process.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {

// By "tasks" and not "cgroup.procs", and by the process itself ("0"): the kernel then need not stop
// all forks and exits of the machine, for which it mostly waits an RCU grace period, 10 to 30 ms.
Result<void> EnterCgroups(Child& child, const model::CgroupPlan& plan) {
  for (const model::FdIndex index : plan.attach) {
    auto entered = sys::WriteControlAt(child.Fd(index), "tasks", "0");
    if (!entered && entered.error().sys_errno() == ENOENT) {  // cgroup2
      entered = sys::WriteControlAt(child.Fd(index), "cgroup.procs", "0");
    }
    RETURN_IF_ERROR(WithContext(std::move(entered), StrCat("enter cgroup ", index)));
  }
  return {};
}

}  // namespace holdfast::runtime
