// SPDX-License-Identifier: Apache-2.0
// A container in a user namespace (hostUsers: false). Its process must be born inside, so that its
// pid namespace belongs to that user namespace; but an id map, the overlay of our layers and a
// sysfs take rights outside. So the launcher's child prepares these, enters the user namespace and
// clones the container's process as a sibling (CLONE_PARENT), which inherits them.
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
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
  ASSIGN_OR_RETURN(const DirFd root, sys::OpenDir("/"));
  return sys::SetMountAttributes(
      root.get(), {.propagation = sys::MountAttributes::Propagation::kPrivate}, true);
}

// Inside, the kernel mounts a sysfs only beside one that is visible already (mount_too_revealing);
// the launcher shows none. This one belongs to the pod's network namespace all the same.
Result<void> PrepareSysfs(Child& child, const model::LaunchPlan& plan) {
  for (const model::MountPlan& mount : plan.mounts) {
    if (mount.kind != model::MountPlan::Kind::kSysfs) continue;
    ASSIGN_OR_RETURN(const UniqueFd context, sys::OpenFilesystem("sysfs"));
    ASSIGN_OR_RETURN(child.sysfs, sys::CreateMount(context.get(), {}));
    return {};
  }
  return {};
}

Result<void> BecomeNamespaceRoot() {
  // The raw calls: glibc's wrappers synchronise threads that this process does not have.
  if (::syscall(SYS_setgroups, 0, nullptr) != 0 || ::syscall(SYS_setresgid, 0, 0, 0) != 0 ||
      ::syscall(SYS_setresuid, 0, 0, 0) != 0) {
    return Error::FromErrno(errno, "become root of the user namespace");
  }
  return {};
}

Result<void> CloneSuccessor(Child& child, const model::LaunchPlan& plan) {
  RETURN_IF_ERROR(sys::JoinNamespace(child.Fd(plan.namespaces.user), CLONE_NEWUSER, "user"));
  if (plan.namespaces.pid != model::kNoFd) {
    RETURN_IF_ERROR(sys::JoinNamespace(child.Fd(plan.namespaces.pid), CLONE_NEWPID, "pid"));
  }
  const model::Plan whole = plan;
  // Still with the launcher's uid, which the cgroup belongs to.
  auto cloned = sys::Clone(CLONE_PARENT | CloneFlags(whole), child.Fd(plan.cgroup.unified));
  if (!cloned) return ExplainCloneFailure(std::move(cloned.error()), whole);
  if (cloned->pid == 0) return BecomeNamespaceRoot();
  HOLDFAST_PAUSE_POINT("launch.successor_cloned");
  const int fds[] = {cloned->pidfd.get()};
  auto told =
      ReportDescriptors(child.socket(), ReportKind::kSuccessor, std::to_string(cloned->pid), fds);
  // Not told, the launcher is gone: the successor sees the end of the socket instead of "go".
  ::_exit(told ? 0 : 1);
}

}  // namespace holdfast::runtime
