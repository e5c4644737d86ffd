// SPDX-License-Identifier: Apache-2.0
// LogJournal: the commit record of one container's log, memory-mapped from the run directory.
//
// A state is published whole: it is copied into the slot that is not current, then the index is
// switched by one atomic store. A logger killed at any instruction leaves the old or the new state.
// The mapping is shared with nobody at the same time: only the holder of logger.lock has it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "holdfast/base/result.h"
#include "runtime/keeper/log/log_format.h"

namespace holdfast::runtime::keeper {

// What is about to be written: the entries of stream bytes [begin, end), stamped with `time`, at
// `offset` of the log file `log_inode`. Of no bytes: the marker line that names `unreported_drops`.
struct LogIntent {
  bool active = false;
  LogStream stream = LogStream::kStdout;
  bool at_end = false;
  uint64_t begin = 0;
  uint64_t end = 0;
  int64_t time_ns = 0;
  uint64_t offset = 0;
  bool IsMarker() const { return begin == end; }
};

// Positions count the bytes of a stream from its beginning. Byte `base` lies at the beginning of
// the spool file; how far the file is filled is told by the cell that `window` selects.
struct LogState {
  uint64_t base[2] = {0, 0};
  uint8_t window[2] = {0, 0};
  uint64_t done[2] = {0, 0};       // everything before is in the log (or given up)
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

  // Offset in the spool file behind the last byte taken. splice(2) itself advances it, within the
  // same system call that moves the bytes, so it is exact whenever the logger is killed. Of the two
  // cells of a stream only the published window's counts; the other one prepares a rewind.
  off64_t* cell(LogStream stream, uint8_t window) const;

 private:
  struct File;
  explicit LogJournal(File* file) : file_(file) {}
  File* file_ = nullptr;
};

}  // namespace holdfast::runtime::keeper
