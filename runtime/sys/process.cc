// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <string>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace holdfast::sys {
namespace {

// struct pidfd_info of Linux 6.15 (<linux/pidfd.h>), which Debian 12's headers do not have.
struct PidFdInfo {
  uint64_t mask;
  uint64_t cgroup_id;
  uint32_t pid;
  uint32_t tgid;
  uint32_t ppid;
  uint32_t ids[8];
  int32_t exit_code;
};
static_assert(sizeof(PidFdInfo) == 64);
constexpr unsigned long kPidFdGetInfo = _IOWR(0xFF, 11, PidFdInfo);
constexpr uint64_t kPidFdInfoExit = 1u << 3;

// struct sched_attr of sched_setattr(2), for which Debian 12's glibc has no declaration.
struct SchedulingAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns;
  uint64_t deadline_ns;
  uint64_t period_ns;
};
static_assert(sizeof(SchedulingAttributes) == 48);
constexpr uint32_t kPolicyDeadline = 6;     // SCHED_DEADLINE
constexpr uint64_t kFlagResetOnFork = 1;    // SCHED_FLAG_RESET_ON_FORK
constexpr uint64_t kShortSliceNs = 100000;  // the shortest that the kernel takes
constexpr uint64_t kAheadRuntimeNs = 5000000;
constexpr uint64_t kAheadPeriodNs = 10000000;

bool SetScheduling(SchedulingAttributes attributes) {
  attributes.size = sizeof attributes;
  return ::syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

Result<std::optional<ExitStatus>> WaitPidFd(int pidfd, int extra_flags) {
  siginfo_t info{};
  int rc = 0;
  do {
    rc = ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd), &info,
                  WEXITED | WNOHANG | extra_flags);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) {
    if (errno == ECHILD) return NotFound("waitid: not a child of this process");
    return Error::FromErrno(errno, "waitid");
  }
  if (info.si_pid == 0) return std::optional<ExitStatus>();
  return std::optional(FromSignalInfo(info));
}

}  // namespace

Result<Cloned> Clone(uint64_t flags, int cgroup) {
  clone_args request{};
  int pidfd = -1;
  request.flags = flags | CLONE_PIDFD;
  request.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  // With CLONE_PARENT the kernel takes the caller's own, and refuses to be told.
  request.exit_signal = (flags & CLONE_PARENT) != 0 ? 0 : SIGCHLD;
  if (cgroup >= 0) {
    request.flags |= CLONE_INTO_CGROUP;
    request.cgroup = static_cast<uint64_t>(cgroup);
  }
  const long pid = ::syscall(SYS_clone3, &request, sizeof request);
  if (pid < 0) return Error::FromErrno(errno, "clone3");
  Cloned cloned;
  cloned.pid = static_cast<pid_t>(pid);
  if (pid != 0) cloned.pidfd = PidFd(pidfd);
  return cloned;
}

Result<PidFd> OpenPidFd(pid_t pid) {
  const long fd = ::syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return Error::FromErrno(errno, StrCat("pidfd_open ", pid));
  return PidFd(static_cast<int>(fd));
}

Result<void> SendSignal(int pidfd, int signal) {
  if (::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) != 0) {
    return Error::FromErrno(errno, StrCat("pidfd_send_signal ", signal));
  }
  return {};
}

ExitStatus FromWaitStatus(int status) {
  ExitStatus exit;
  if (WIFSIGNALED(status)) {
    exit.signal = WTERMSIG(status);
  } else {
    exit.code = WEXITSTATUS(status);
  }
  return exit;
}

ExitStatus FromSignalInfo(const siginfo_t& info) {
  ExitStatus exit;
  if (info.si_code == CLD_EXITED) {
    exit.code = info.si_status;
  } else {
    exit.signal = info.si_status;
  }
  return exit;
}

Result<std::optional<ExitStatus>> PeekExit(int pidfd) { return WaitPidFd(pidfd, WNOWAIT); }

Result<std::optional<ExitStatus>> ReapExit(int pidfd) { return WaitPidFd(pidfd, 0); }

Result<std::optional<ExitStatus>> ExitFromPidFd(int pidfd) {
  PidFdInfo info{};
  info.mask = kPidFdInfoExit;
  if (::ioctl(pidfd, kPidFdGetInfo, &info) != 0) {
    if (errno == ENOTTY || errno == EINVAL)
      return Unsupported("PIDFD_GET_INFO: not in this kernel");
    // Before 6.15 a reaped process gave ESRCH.
    return Error::FromErrno(errno, "PIDFD_GET_INFO");
  }
  if ((info.mask & kPidFdInfoExit) == 0) return std::optional<ExitStatus>();
  return std::optional(FromWaitStatus(info.exit_code));
}

bool IsEnding(int pidfd) {
  constexpr uint64_t kExiting = 0x4;  // PF_EXITING of include/linux/sched.h
  constexpr std::string_view kPid = "\nPid:\t";
  const auto info = ReadFileAt(AT_FDCWD, StrCat("/proc/self/fdinfo/", pidfd), 4096);
  const size_t at = info ? info->find(kPid) : std::string::npos;
  if (at == std::string::npos) return false;
  const std::string pid =
      info->substr(at + kPid.size(), info->find('\n', at + 1) - at - kPid.size());
  const auto stat = ReadFileAt(AT_FDCWD, StrCat("/proc/", pid, "/stat"), 4096);
  if (!stat) return true;  // -1 once it was reaped
  const auto flags = StatField(*stat, 9);
  return flags && (*flags & kExiting) != 0;
}

Result<uint64_t> StatField(std::string_view stat, int number) {
  // The command may hold spaces and parentheses; fields are counted behind the last ")".
  size_t at = stat.rfind(')');
  for (int field = 2; field < number && at != std::string_view::npos; ++field) {
    at = stat.find(' ', at + 1);
  }
  uint64_t value = 0;
  if (at == std::string_view::npos ||
      std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), value).ec != std::errc()) {
    return Internal(StrCat("/proc/PID/stat: no number in field ", number));
  }
  return value;
}

Result<uint64_t> StartTicks(int proc, pid_t pid) {
  ASSIGN_OR_RETURN(const std::string stat, ReadFileAt(proc, StrCat(pid, "/stat"), 8192));
  return StatField(stat, 22);
}

void PreferShortSlices() {
  errno = 0;
  SchedulingAttributes attributes{};  // SCHED_OTHER
  attributes.nice = ::getpriority(PRIO_PROCESS, 0);
  attributes.runtime_ns = kShortSliceNs;
  if (errno == 0) (void)SetScheduling(attributes);
}

void RunAhead() {
  SchedulingAttributes attributes{};
  attributes.policy = kPolicyDeadline;
  attributes.flags = kFlagResetOnFork;
  attributes.runtime_ns = kAheadRuntimeNs;
  attributes.deadline_ns = kAheadPeriodNs;
  attributes.period_ns = kAheadPeriodNs;
  (void)SetScheduling(attributes);
}

Result<void> ResetScheduling() {
  SchedulingAttributes ordinary{};
  if (SetScheduling(ordinary)) return {};
  if (errno == EPERM) {
    // Started with a higher niceness, and in a user namespace nobody may lower it: it stays.
    ordinary.nice = ::getpriority(PRIO_PROCESS, 0);
    if (ordinary.nice > 0 && SetScheduling(ordinary)) return {};
    errno = EPERM;
  }
  return Error::FromErrno(errno, "sched_setattr");
}

Result<void> JoinNamespace(int fd, int flags, const char* what) {
  if (::setns(fd, flags) != 0) return Error::FromErrno(errno, StrCat("setns ", what));
  return {};
}

Result<void> CloseRange(unsigned first, unsigned last, bool unshare) {
  if (first > last) return {};
  if (::syscall(SYS_close_range, first, last, unshare ? CLOSE_RANGE_UNSHARE : 0u) != 0) {
    return Error::FromErrno(errno, "close_range");
  }
  return {};
}

}  // namespace holdfast::sys
