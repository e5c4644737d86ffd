// SPDX-License-Identifier: Apache-2.0
// Records: start and exit records as files in the run directory (a tmpfs, so no fsync). Written
// atomically; a record that is there is whole. Any process of ours may read them.
//
// A start record says "this pid with this start time is process <id>"; it exists from before the
// process may run until Forget. An exit record is written by whoever waits for the process (or by
// whoever finds out that nobody can), before the process is reaped. Writing it again is harmless:
// the first one stays.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/keeper/common/types.h"

namespace holdfast::runtime::keeper {

class Records {
 public:
  // Makes the directories below `run_dir` (0700) where they are missing.
  static Result<Records> Open(const std::string& run_dir);
  static Result<Records> OpenAt(UniqueFd run_dir);

  Result<void> WriteStart(const StartRecord& record) const;
  Result<std::optional<StartRecord>> ReadStart(const std::string& id) const;
  Result<std::vector<StartRecord>> ListStarts() const;  // sorted by id; unreadable files left out
  Result<void> RemoveStart(const std::string& id) const;

  // The mark of a launch, for the time in which its launcher does not know the outcome: a file of
  // one byte that is 0 until the program begins. Made anew, before the process exists.
  Result<UniqueFd> MakeBegun(const std::string& id) const;
  void RemoveBegun(const std::string& id) const;
  // Of a process that is gone: its launch was cut short, and nothing of its program has run. That is
  // no exit; whoever finds it removes the start record, and the id is free again.
  bool NeverBegan(const std::string& id) const;

  // Keeps an exit record that is there already for the same process (pid and start time).
  Result<void> WriteExit(const ExitRecord& record) const;
  Result<void> ReplaceExit(const ExitRecord& record) const;
  Result<std::optional<ExitRecord>> ReadExit(const std::string& id) const;
  // Of exactly this process; none while it has no record.
  Result<std::optional<model::ExitReport>> ExitOf(const StartRecord& start) const;
  Result<std::vector<ExitRecord>> ListExits() const;
  Result<void> RemoveExit(const std::string& id) const;
  // For whoever wrote an exit record of a process that may have been reaped: Forget() may have come
  // between. It removes the start record first, so where that is gone the exit record goes too.
  Result<void> RemoveExitIfForgotten(const std::string& id) const;

  // The run directory itself; stays valid in another mount namespace.
  int run_dir() const { return run_dir_.get(); }

 private:
  UniqueFd run_dir_;
  UniqueFd starts_;
  UniqueFd exits_;
  UniqueFd begun_;
};

}  // namespace holdfast::runtime::keeper
