// SPDX-License-Identifier: Apache-2.0
// The birth of a process into a pid namespace in which others live already (parent.h, IsBornLate).
// One of them may have CAP_SYS_PTRACE, before which "not dumpable" is no defence: it can read the
// memory of a process that it sees, take its descriptors and make it run code. So by the time the
// process is born it has the container's identity and capabilities, no descriptor but the streams
// and the report socket, and the seccomp filter.
#include <linux/audit.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/launch/bpf_evaluator.h"
#include "runtime/launch/protocol.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "which architecture do seccomp programs see?"
#endif

// A sibling: the launcher is its parent. clone and not clone3, which most profiles refuse.
constexpr unsigned long kCloneFlags = CLONE_PARENT | SIGCHLD;

struct Call {
  const char* name;
  long number;
  uint64_t first_argument;
};

// What is left to do behind the filter: TakeLastCapabilities, CloneLast, LeadSession, reports. The
// program's own execve is not in it: without that no profile starts anything.
constexpr std::array kLeft = {
    Call{"capset", SYS_capset, 0},         Call{"clone", SYS_clone, kCloneFlags},
    Call{"write", SYS_write, 3},           Call{"read", SYS_read, 3},
    Call{"setsid", SYS_setsid, 0},         Call{"ioctl", SYS_ioctl, 0},
    Call{"exit_group", SYS_exit_group, 0},
};

bool Allows(const std::vector<model::BpfInstruction>& filter, const Call& call) {
  seccomp_data data{};
  data.nr = static_cast<int>(call.number);
  data.arch = kArchitecture;
  data.args[0] = call.first_argument;
  const auto decision = Evaluate(filter, data);
  return decision && (decision->action == SECCOMP_RET_ALLOW || decision->action == SECCOMP_RET_LOG);
}

const char* FirstRefused(const std::vector<model::BpfInstruction>& filter) {
  for (const Call& call : kLeft) {
    if (!Allows(filter, call)) return call.name;
  }
  return nullptr;
}

}  // namespace

Result<void> ConfineBeforeBirth(Child& child, const model::ProcessPlan& plan) {
  const char* refused = FirstRefused(plan.seccomp);
  if (plan.seccomp.empty()) return {};
  if (refused == nullptr) {
    RETURN_IF_ERROR(LoadSeccomp(child, plan));
    return TakeLastCapabilities(child, plan);
  }
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
