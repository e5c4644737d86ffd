// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/reaper.h"

#include <sys/wait.h>

#include <cerrno>

#include "holdfast/sys/pause_point.h"
#include "runtime/keeper/common/process_info.h"

namespace holdfast::runtime::keeper {

bool Reaper::ReapAll(const std::function<bool(pid_t)>& keep) {
  unrecorded_ = false;
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      return false;  // ECHILD
    }
    if (info.si_pid == 0 || (keep && keep(info.si_pid))) return true;
    auto id = Record(info.si_pid, sys::FromSignalInfo(info));
    // Not recorded (no space in the run directory): stays a zombie and is tried again.
    if (!id) {
      unrecorded_ = true;
      return true;
    }
    HOLDFAST_PAUSE_POINT("keeper.before-reap");
    ::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
    expected_.erase(info.si_pid);
    if (ended_) ended_(info.si_pid, *id);
  }
}

Result<std::string> Reaper::FindId(pid_t pid, uint64_t start_ticks) {
  if (const auto it = expected_.find(pid); it != expected_.end()) return it->second;
  ASSIGN_OR_RETURN(const std::vector<StartRecord> starts, records_.ListStarts());
  for (const StartRecord& start : starts) {
    if (start.pid == pid && start.start_ticks == start_ticks) return start.id;
  }
  return std::string();
}

Result<std::string> Reaper::Record(pid_t pid, const sys::ExitStatus& status) {
  auto ticks = StartTicks(pid);
  if (!ticks) return std::string();
  ASSIGN_OR_RETURN(const std::string id, FindId(pid, *ticks));
  if (id.empty()) return id;
  HOLDFAST_PAUSE_POINT("keeper.before-exit-record");
  if (StageOf(pid, *ticks) == ProcessStage::kStarting) {
    // It never became the program: the launch did not happen, and its id is free again.
    RETURN_IF_ERROR(records_.RemoveStart(id));
    return id;
  }
  ExitRecord record{id, pid, *ticks, ReportFromStatus(status, clock_.Wall())};
  RETURN_IF_ERROR(records_.WriteExit(record));
  HOLDFAST_PAUSE_POINT("keeper.after-exit-record");
  return id;
}

}  // namespace holdfast::runtime::keeper
