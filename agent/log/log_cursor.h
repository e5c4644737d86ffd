// SPDX-License-Identifier: Apache-2.0
// LogCursor: reads the log of a container from a place in it to its end, and on from there as it
// grows, across rotation and into the next run. Reads files only; no threads, no waiting.
// Single-thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/log/log_line.h"
#include "agent/log/log_segments.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent {

struct LogFilter {
  std::optional<LogStreamKind> stream;
  WallTime since;                     // zero: all
  std::optional<int64_t> tail_lines;  // absent: all
};

class LogCursor {
 public:
  // kNotFound when this run has no log file. `unpacked` is borrowed.
  static Result<LogCursor> Open(DirFd directory, uint32_t attempt, LogFilter filter,
                                UnpackedLogs& unpacked);

  // Appends lines until their text exceeds `max_bytes` or the end is reached; true: at the end for
  // now. What a writer adds later is found by calling again.
  Result<bool> Read(size_t max_bytes, std::vector<ShownLine>& out);

  // Whether a later run has begun to log.
  Result<bool> NextExists() const;
  // Goes to the next run's log; false: there is none (yet). What was left unfinished is appended.
  Result<bool> EnterNextAttempt(std::vector<ShownLine>& out);
  // The unfinished last line of each stream.
  void Flush(std::vector<ShownLine>& out) { joiner_.Flush(out); }

  uint32_t attempt() const { return attempt_; }

 private:
  LogCursor(DirFd directory, uint32_t attempt, LogFilter filter, UnpackedLogs& unpacked);

  Result<void> Start();
  Result<void> StartAtTail(const std::vector<LogSegment>& segments, int64_t lines);
  Result<void> EnterSegment(const LogSegment& segment, off_t offset);
  // The segment after the present one; nullopt: the present one is still written to.
  Result<std::optional<LogSegment>> FollowingSegment();
  // Enters `next`, or what follows by now.
  Result<void> EnterFollowing(LogSegment next);
  Result<bool> Fill();  // false: end of file
  void TakeLines(size_t max_bytes, std::vector<ShownLine>& out);

  DirFd directory_;
  uint32_t attempt_;
  LogFilter filter_;
  LineJoiner joiner_;

  UnpackedLogs* unpacked_;  // not null; a reference could not be moved to
  LogFile file_;
  LogSegment segment_;
  off_t offset_ = 0;
  std::string buffer_;     // read, not yet taken
  size_t taken_ = 0;       // of buffer_
  WallTime last_time_;     // of the last entry taken
  WallTime skip_through_;  // after a gap: entries up to here were shown before
};

}  // namespace holdfast::agent
