// SPDX-License-Identifier: Apache-2.0
#include <linux/capability.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/sys/mount.h"
#include "holdfast/sys/process.h"
#include "runtime/launch/steps.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

namespace holdfast::runtime {

Result<void> JoinPodNamespaces(Child& child, const model::LaunchPlan& plan) {
  const model::NamespacePlan& n = plan.namespaces;
  struct Join {
    model::FdIndex index;
    int flag;
    const char* name;
  };
  const Join joins[] = {{n.network, CLONE_NEWNET, "network"},
                        {n.ipc, CLONE_NEWIPC, "ipc"},
                        {n.uts, CLONE_NEWUTS, "uts"},
                        {n.pid, CLONE_NEWPID, "pid"}};  // for CloneLast
  for (const Join& join : joins) {
    if (join.index == model::kNoFd) continue;
    RETURN_IF_ERROR(sys::JoinNamespace(child.Fd(join.index), join.flag, join.name));
  }
  return {};
}

Result<void> MakeOwnNamespaces(Child&, const model::LaunchPlan& plan) {
  // The cgroup namespace is rooted where the process is now, so it comes after EnterCgroups (and is
  // not given to clone3, which would take the launcher's cgroup).
  const int flags = CLONE_NEWNS | (plan.namespaces.new_cgroup ? CLONE_NEWCGROUP : 0);
  if (::unshare(flags) != 0) return Error::FromErrno(errno, "unshare mount and cgroup namespaces");
  // Nothing of what follows may propagate into the launcher's namespace.
  return sys::MakeMountsPrivate();
}

Result<void> JoinTarget(Child& child, const model::ExecPlan& plan) {
  child.may_be_traced =
      plan.shares_pid_namespace || (plan.process.capabilities.bounding >> CAP_SYS_PTRACE & 1) != 0;
  // The pid namespace is CloneLast's: this process stays out of it.
  int flags =
      CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWPID;
  if (plan.join_user) flags |= CLONE_NEWUSER;
  if (child.facts().time_namespace) flags |= CLONE_NEWTIME;
  auto joined = sys::JoinNamespace(child.Fd(plan.target), flags, "of the container");
  if (!joined && joined.error().sys_errno() == ESRCH) {
    return NotFound("setns: the container is not running");
  }
  RETURN_IF_ERROR(joined);
  return plan.join_user ? BecomeNamespaceRoot() : Result<void>();
}

}  // namespace holdfast::runtime
