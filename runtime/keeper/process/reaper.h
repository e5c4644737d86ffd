// SPDX-License-Identifier: Apache-2.0
// Reaper: what launcher and holder do with children that ended: peek (WNOWAIT), write the exit
// record, then reap. Killed between any two of these, the next waiter sees the zombie again.
// Single-threaded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/process.h"
#include "runtime/keeper/common/records.h"

namespace holdfast::runtime::keeper {

class Reaper {
 public:
  // `ended` is called for each reaped child, with the id of its record or "".
  using Ended = std::function<void(pid_t pid, const std::string& id)>;

  Reaper(const Records& records, const Clock& clock, Ended ended)
      : records_(records), clock_(clock), ended_(std::move(ended)) {}

  // Children known without looking through the records, of which there are as many as containers: one that has a record, and
  // one that has none, or none yet.
  void Expect(const StartRecord& record) { expected_[record.pid] = record.id; }
  void ExpectWithoutRecord(pid_t pid) { expected_[pid].clear(); }
  // Handles the children that have ended by now, up to the first one that `keep` (may be empty)
  // wants to stay a zombie for now. False when there is no child at all.
  bool ReapAll(const std::function<bool(pid_t)>& keep = {});
  // The last call could not write an exit down: another one may.
  bool HasUnrecorded() const { return unrecorded_; }

 private:
  Result<std::string> FindId(pid_t pid, uint64_t start_ticks);
  Result<std::string> Record(pid_t pid, const sys::ExitStatus& status);

  const Records& records_;
  const Clock& clock_;
  Ended ended_;
  std::map<pid_t, std::string> expected_;
  bool unrecorded_ = false;
};

}  // namespace holdfast::runtime::keeper
