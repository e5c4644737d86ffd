// SPDX-License-Identifier: Apache-2.0
// OrphanExits: exit records for processes that holder and launcher cannot wait for, or soon cannot,
// because the keeper process between them and PID 1 has died: heard from the kernel (ExitEvents),
// or asked of a pidfd that was opened before (Linux 6.15+).
// Holder and launcher each have one, made at their start, so that either may die.
// Single-threaded, in the owner's Loop.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "holdfast/base/clock.h"
#include "runtime/keeper/common/records.h"
#include "runtime/keeper/process/exit_events.h"
#include "runtime/keeper/process/loop.h"

namespace holdfast::runtime::keeper {

// Which processes stay waited for when any single process of ours dies.
enum class SafeParent {
  kSelf,         // the launcher: its own children only
  kSelfOrChild,  // the holder: its launcher's too
};

class OrphanExits {
 public:
  // All borrowed.
  OrphanExits(const Records& records, const Clock& clock, Loop& loop)
      : records_(records), clock_(clock), loop_(loop) {}
  ~OrphanExits() { Close(); }
  OrphanExits(const OrphanExits&) = delete;
  OrphanExits& operator=(const OrphanExits&) = delete;

  // The recorded processes that run now and are not below a `safe` parent.
  void Watch(SafeParent safe);
  // Whether it may still write the record of this process: it runs, or has ended just now.
  bool Awaits(const std::string& id);
  // Writes the records of those that are over. On each event, and to be called on each tick too: an
  // event comes before its process is over, or after, and a pidfd tells nothing before the reaping.
  void Hear();
  bool empty() const { return orphans_.empty(); }

 private:
  struct Orphan {
    std::string id;
    uint64_t start_ticks = 0;
    UniqueFd process;  // a pidfd
    ProcessEnd end;
    std::optional<BootTime> gone_since;
  };

  // True when there is nothing more to wait for.
  bool Settle(pid_t pid, Orphan& orphan);
  bool IsSettled(pid_t pid, const Orphan& orphan) const;
  std::optional<model::ExitReport> ReportOf(pid_t pid, const Orphan& orphan) const;
  void Close();

  const Records& records_;
  const Clock& clock_;
  Loop& loop_;
  std::optional<ExitEvents> events_;
  std::map<pid_t, Orphan> orphans_;
};

}  // namespace holdfast::runtime::keeper
