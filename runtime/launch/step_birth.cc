// SPDX-License-Identifier: Apache-2.0
// The birth of a process into a pid namespace in which others live already (parent.h, IsBornLate).
// One of them may have CAP_SYS_PTRACE, before which "not dumpable" is no defence: it can read the
// memory of a process that it sees, take its descriptors and make it run code. So by the time the
// process is born it has the container's identity and capabilities, no descriptor but the streams
// and the report socket, and the seccomp filter.
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/launch/filter.h"
#include "runtime/launch/protocol.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

// A sibling: the launcher is its parent. clone and not clone3, which most profiles refuse.
constexpr unsigned long kCloneFlags = CLONE_PARENT | SIGCHLD;

struct Call {
  const char* name;
  long number;
  uint64_t first_argument;
};

// What is left to do behind the filter: giving up CAP_SYS_ADMIN, CloneLast, LeadSession, reports.
// The program's own execve is not in it: without that no profile starts anything.
constexpr std::array kLeft = {
    Call{"capset", SYS_capset, 0},         Call{"clone", SYS_clone, kCloneFlags},
    Call{"write", SYS_write, 3},           Call{"read", SYS_read, 3},
    Call{"setsid", SYS_setsid, 0},         Call{"ioctl", SYS_ioctl, 0},
    Call{"exit_group", SYS_exit_group, 0},
};

const char* FirstRefused(const std::vector<model::BpfInstruction>& filter) {
  for (const Call& call : kLeft) {
    if (!FilterAllows(filter, call.number, call.first_argument)) return call.name;
  }
  return nullptr;
}

}  // namespace

Result<void> ConfineBeforeBirth(Child& child, const model::ProcessPlan& plan) {
  if (plan.seccomp.program.empty()) return {};
  const char* refused = FirstRefused(plan.seccomp.program);
  if (refused == nullptr) return LoadSeccomp(child, plan);
  // The process itself must load it then. With no_new_privs it needs no capability for that.
  if (plan.no_new_privs || !child.may_be_traced) return {};
  return Error(
      Code::kPermissionDenied,
      StrCat("the profile refuses ", refused,
             ", which a process needs that is put under it before others of the pod, which "
             "may have CAP_SYS_PTRACE, can see it: allow it in the profile, or set "
             "allowPrivilegeEscalation: false"));
}

Result<void> CloneLast(Child& child, const model::ProcessPlan&) {
  HOLDFAST_PAUSE_POINT("launch.before_birth");
  const long pid = ::syscall(SYS_clone, kCloneFlags, 0, 0, 0, 0);
  if (pid == 0) return {};
  if (pid > 0) {
    ReportSuccessor(child.socket(), static_cast<pid_t>(pid));
    ::_exit(0);
  }
  // The namespace's first process has ended.
  if (errno == ENOMEM) {
    return Error(Code::kNotFound, ENOMEM, "clone: the container is not running");
  }
  if (errno == EAGAIN) {
    return Error(Code::kResourceExhausted, EAGAIN,
                 "clone: the container or its pod has as many processes as it may (pids limit)");
  }
  return Error::FromErrno(errno, "clone");
}

}  // namespace holdfast::runtime
