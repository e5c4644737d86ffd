// SPDX-License-Identifier: Apache-2.0
// Entering cgroups that clone3 cannot put a process into: v1, hybrid.
#include <fcntl.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

Result<void> Enter(int directory) {
  auto members = sys::OpenAt(directory, "tasks", O_WRONLY);
  if (!members && members.error().sys_errno() == ENOENT) {  // cgroup2
    members = sys::OpenAt(directory, "cgroup.procs", O_WRONLY);
  }
  if (!members) return std::move(members.error());
  return sys::WriteAll(KeepOpen(std::move(*members)), "0");
}

}  // namespace

// By "tasks" and not "cgroup.procs", and by the process itself ("0"): the kernel then need not stop
// all forks and exits of the machine, for which it mostly waits an RCU grace period, 10 to 30 ms.
Result<void> EnterCgroups(Child& child, const model::CgroupPlan& plan) {
  for (const model::FdIndex index : plan.attach) {
    RETURN_IF_ERROR(WithContext(Enter(child.Fd(index)), StrCat("enter cgroup ", index)));
  }
  return {};
}

}  // namespace holdfast::runtime
