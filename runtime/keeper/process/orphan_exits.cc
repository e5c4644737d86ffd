// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/orphan_exits.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "holdfast/sys/readable.h"
#include "runtime/keeper/common/process_info.h"
#include "runtime/keeper/process/reaper.h"
#include "runtime/launch/launch.h"

namespace holdfast::runtime::keeper {
namespace {

// Whether a process that is gone has an event: the kernel has sent it before.
constexpr std::chrono::seconds kEventLimit{1};

bool IsSafe(pid_t process, SafeParent safe) {
  auto parent = ParentOf(process);
  if (!parent || *parent == ::getpid()) return true;  // gone: nothing can be heard any more
  if (safe == SafeParent::kSelf) return false;
  auto above = ParentOf(*parent);
  return above && *above == ::getpid();
}

bool IsOver(const UniqueFd& process) { return sys::IsReadable(process.get()); }

}  // namespace

void OrphanExits::Watch(SafeParent safe) {
  auto starts = records_.ListStarts();
  if (!starts) return;
  std::vector<pid_t> pids;
  for (const StartRecord& start : *starts) {
    if (IsSafe(start.pid, safe)) continue;
    auto process = OpenExactProcess(start.pid, start.start_ticks);
    if (!process) continue;
    auto moved = MoveAboveLowFds(std::move(*process));  // as all that a launcher keeps
    if (!moved) continue;
    pids.push_back(start.pid);
    orphans_[start.pid] = {start.id, start.start_ticks, std::move(*moved), {}, {}};
  }
  if (pids.empty()) return;
  auto events = ExitEvents::Listen(pids);
  if (!events || !loop_.Add(events->fd(), EPOLLIN, [this](uint32_t) { Hear(); })) return;
  events_ = std::move(*events);
}

bool OrphanExits::Awaits(const std::string& id) {
  Hear();
  return std::ranges::any_of(orphans_, [&id](const auto& each) { return each.second.id == id; });
}

void OrphanExits::Hear() {
  if (events_) {
    for (const ExitEvent& event : events_->Receive()) {
      const auto it = orphans_.find(event.process);
      if (it != orphans_.end()) it->second.end.Add(event);
    }
  }
  for (auto it = orphans_.begin(); it != orphans_.end();) {
    it = Settle(it->first, it->second) ? orphans_.erase(it) : std::next(it);
  }
  if (orphans_.empty()) Close();
}

bool OrphanExits::Settle(pid_t pid, Orphan& orphan) {
  if (!IsOver(orphan.process)) return false;
  const ProcessStage stage = StageOf(pid, orphan.start_ticks);
  if (orphan.end.status() && stage == ProcessStage::kStarting) return true;
  if (stage == ProcessStage::kGone && IsSettled(pid, orphan)) return true;
  const auto report = ReportOf(pid, orphan);
  if (!report) {
    if (stage != ProcessStage::kGone) return false;
    const BootTime now = clock_.Boot();
    if (!orphan.gone_since) orphan.gone_since = now;
    return now - *orphan.gone_since >= kEventLimit;
  }
  // Not written (no space): tried again.
  return records_.WriteExit({orphan.id, pid, orphan.start_ticks, *report}) &&
         records_.RemoveExitIfForgotten(orphan.id);
}

// By somebody else; or it is forgotten already.
bool OrphanExits::IsSettled(pid_t pid, const Orphan& orphan) const {
  const auto start = records_.ReadStart(orphan.id);
  if (!start) return false;
  if (!*start || (*start)->pid != pid || (*start)->start_ticks != orphan.start_ticks) return true;
  const auto exit = records_.ExitOf(**start);
  if (!exit) return false;
  if (*exit) return true;
  return records_.NeverBegan(orphan.id) && records_.RemoveStart(orphan.id);
}

std::optional<model::ExitReport> OrphanExits::ReportOf(pid_t pid, const Orphan& orphan) const {
  if (!orphan.end.status()) {
    // A zombie may yet become one that a process of ours waits for.
    if (ProcessExists(pid, orphan.start_ticks)) return std::nullopt;
    return ExitFromPidfd(orphan.process.get(), clock_.Wall());
  }
  model::ExitReport report =
      ReportFromStatus(sys::FromWaitStatus(*orphan.end.status()), clock_.Wall());
  report.source = model::ExitReport::Source::kProcessEvent;
  return report;
}

void OrphanExits::Close() {
  if (events_) loop_.Remove(events_->fd());
  events_.reset();
  orphans_.clear();
}

}  // namespace holdfast::runtime::keeper
