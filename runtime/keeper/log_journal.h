// SPDX-License-Identifier: Apache-2.0
// LogJournal: the commit record of one container's log, memory-mapped from the run directory.
//
// A state is published whole: it is copied into the slot that is not current, then the index is
// switched by one atomic store. A logger killed at any instruction leaves the old or the new state.
// The mapping is shared with nobody at the same time: only the holder of logger.lock has it.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/base/result.h"
#include "runtime/keeper/log_format.h"

namespace holdfast::runtime::keeper {

// What is about to be written: the entries of spool bytes [begin, end), stamped with `time`, at
// `offset` of the log file `log_inode`.
struct LogIntent {
  bool active = false;
  LogStream stream = LogStream::kStdout;
  bool at_end = false;
  uint64_t begin = 0;
  uint64_t end = 0;
  int64_t time_ns = 0;
  uint64_t offset = 0;
};

struct LogState {
  uint64_t done[2] = {0, 0};       // bytes of each spool that are in the log (or given up)
  bool ended[2] = {false, false};  // end-of-file was seen and everything before it is done
  uint64_t log_inode = 0;          // of the file written last, 0 before the first
  uint64_t rotations = 0;
  uint64_t dropped_bytes = 0;
  uint64_t unreported_drops = 0;  // of those, not yet named by a marker line
  LogIntent intent;
};

class LogJournal {
 public:
  // Opens or makes `name`; kUnsupported for another version's file.
  static Result<LogJournal> Open(int dir, const std::string& name);
  LogJournal(LogJournal&& other) noexcept;
  LogJournal& operator=(LogJournal&& other) noexcept;
  ~LogJournal();

  const LogState& state() const;
  void Publish(const LogState& state);

 private:
  struct File;
  explicit LogJournal(File* file) : file_(file) {}
  File* file_ = nullptr;
};

}  // namespace holdfast::runtime::keeper
