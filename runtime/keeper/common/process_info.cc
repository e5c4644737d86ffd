// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/common/process_info.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::runtime::keeper {
namespace {

// include/uapi/linux/pidfd.h of Linux 6.15, which Debian 12's headers do not have yet.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup_id;
  uint32_t ids[11];
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);
constexpr uint64_t kPidfdInfoExit = 1u << 3;

constexpr uint64_t kForkedNoExec = 0x40;  // PF_FORKNOEXEC of include/linux/sched.h

Result<std::string> ReadStat(pid_t pid) {
  return sys::ReadFileAt(AT_FDCWD, StrCat("/proc/", pid, "/stat"), 4096);
}

// Counted from 1 as in proc(5); a number after the command's name.
Result<uint64_t> FieldOf(const std::string& stat, int number) {
  // The command name (field 2) may hold anything, so count from its closing parenthesis.
  size_t at = stat.rfind(')');
  if (at == std::string::npos) return Internal("/proc/PID/stat: no name");
  for (int field = 2; field < number; ++field) {
    at = stat.find(' ', at + 1);
    if (at == std::string::npos) return Internal("/proc/PID/stat: too short");
  }
  return std::strtoull(stat.c_str() + at + 1, nullptr, 10);
}

}  // namespace

Result<uint64_t> StartTicks(pid_t pid) {
  ASSIGN_OR_RETURN(const std::string stat, ReadStat(pid));
  return FieldOf(stat, 22);
}

Result<pid_t> ParentOf(pid_t pid) {
  ASSIGN_OR_RETURN(const std::string stat, ReadStat(pid));
  ASSIGN_OR_RETURN(const uint64_t parent, FieldOf(stat, 4));
  return static_cast<pid_t>(parent);
}

bool ProcessExists(pid_t pid, uint64_t start_ticks) {
  auto ticks = StartTicks(pid);
  return ticks && *ticks == start_ticks;
}

ProcessStage StageOf(pid_t pid, uint64_t start_ticks) {
  const auto stat = ReadStat(pid);
  if (!stat) return ProcessStage::kGone;
  const auto ticks = FieldOf(*stat, 22);
  const auto flags = FieldOf(*stat, 9);
  if (!ticks || !flags || *ticks != start_ticks) return ProcessStage::kGone;
  return (*flags & kForkedNoExec) != 0 ? ProcessStage::kStarting : ProcessStage::kStarted;
}

Result<PidFd> OpenExactProcess(pid_t pid, uint64_t start_ticks) {
  PidFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) {
    if (errno == ESRCH || errno == EINVAL) return NotFound(StrCat("process ", pid, " is gone"));
    return Error::FromErrno(errno, StrCat("pidfd_open ", pid));
  }
  // The start time is read after the pidfd was opened: if it fits, the pidfd is the right one.
  if (!ProcessExists(pid, start_ticks)) return NotFound(StrCat("process ", pid, " is gone"));
  return fd;
}

std::optional<model::ExitReport> ExitFromPidfd(int pidfd, WallTime now) {
  PidfdInfo info{};
  info.mask = kPidfdInfoExit;
  if (::ioctl(pidfd, kPidfdGetInfo, &info) != 0 || (info.mask & kPidfdInfoExit) == 0) {
    return std::nullopt;
  }
  model::ExitReport report = ReportFromStatus(info.exit_code, now);
  report.source = model::ExitReport::Source::kPidfdInfo;
  return report;
}

model::ExitReport ReportFromStatus(int wait_status, WallTime now) {
  model::ExitReport report;
  report.finished_at = now;
  if (WIFSIGNALED(wait_status)) {
    report.signal = WTERMSIG(wait_status);
    report.exit_code = 128 + report.signal;
  } else {
    report.exit_code = WEXITSTATUS(wait_status);
  }
  return report;
}

}  // namespace holdfast::runtime::keeper
