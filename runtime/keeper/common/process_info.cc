// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/common/process_info.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr uint64_t kForkedNoExec = 0x40;  // PF_FORKNOEXEC of include/linux/sched.h

Result<std::string> ReadStat(pid_t pid) {
  return sys::ReadFileAt(AT_FDCWD, StrCat("/proc/", pid, "/stat"), 4096);
}

}  // namespace

Result<uint64_t> StartTicks(pid_t pid) {
  ASSIGN_OR_RETURN(const std::string stat, ReadStat(pid));
  return sys::StatField(stat, 22);
}

Result<pid_t> ParentOf(pid_t pid) {
  ASSIGN_OR_RETURN(const std::string stat, ReadStat(pid));
  ASSIGN_OR_RETURN(const uint64_t parent, sys::StatField(stat, 4));
  return static_cast<pid_t>(parent);
}

bool ProcessExists(pid_t pid, uint64_t start_ticks) {
  auto ticks = StartTicks(pid);
  return ticks && *ticks == start_ticks;
}

ProcessStage StageOf(pid_t pid, uint64_t start_ticks) {
  const auto stat = ReadStat(pid);
  if (!stat) return ProcessStage::kGone;
  const auto ticks = sys::StatField(*stat, 22);
  const auto flags = sys::StatField(*stat, 9);
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
  const auto status = sys::ExitFromPidFd(pidfd);
  if (!status || !*status) return std::nullopt;
  model::ExitReport report = ReportFromStatus(**status, now);
  report.source = model::ExitReport::Source::kPidfdInfo;
  return report;
}

model::ExitReport ReportFromStatus(const sys::ExitStatus& status, WallTime now) {
  model::ExitReport report;
  report.finished_at = now;
  report.signal = status.signal;
  report.exit_code = status.ShellCode();
  return report;
}

}  // namespace holdfast::runtime::keeper
