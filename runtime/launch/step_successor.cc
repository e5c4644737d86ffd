// SPDX-License-Identifier: Apache-2.0
// A container in a user namespace (hostUsers: false). An id map, the overlay of our layers and a
// sysfs take rights outside, so the launcher's child prepares these before it enters. A pid
// namespace of the container's own must belong to that user namespace, so its process must be born
// inside: the child clones it as a sibling (CLONE_PARENT), which inherits what was prepared.
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/sys/mount.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/process.h"
#include "runtime/launch/parent.h"
#include "runtime/launch/protocol.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {

// Only what is attached in the caller's mount namespace can be copied and become a layer.
Result<void> MakePreparationNamespace(Child&, const model::LaunchPlan&) {
  if (::unshare(CLONE_NEWNS) != 0) return Error::FromErrno(errno, "unshare mount namespace");
  return sys::MakeMountsPrivate();
}

Result<void> BecomeNamespaceRoot() {
  // The raw calls: glibc's wrappers synchronise threads that this process does not have.
  if (::syscall(SYS_setgroups, 0, nullptr) != 0 || ::syscall(SYS_setresgid, 0, 0, 0) != 0 ||
      ::syscall(SYS_setresuid, 0, 0, 0) != 0) {
    return Error::FromErrno(errno, "become root of the user namespace");
  }
  return {};
}

Result<void> EnterUserNamespace(Child& child, const model::LaunchPlan& plan) {
  RETURN_IF_ERROR(sys::JoinNamespace(child.Fd(plan.namespaces.user), CLONE_NEWUSER, "user"));
  if (child.born_late) return BecomeNamespaceRoot();
  // Still with the launcher's uid, which the cgroup belongs to.
  ASSIGN_OR_RETURN(
      const sys::Cloned cloned,
      sys::Clone(CLONE_PARENT | CloneFlags(model::Plan(plan)), child.Fd(plan.cgroup.unified)));
  if (cloned.pid == 0) return BecomeNamespaceRoot();
  HOLDFAST_PAUSE_POINT("launch.successor_cloned");
  ReportSuccessor(child.socket(), cloned.pid);
  // Not told, the launcher is gone: the successor sees the end of the socket instead of "go".
  ::_exit(0);
}

}  // namespace holdfast::runtime
