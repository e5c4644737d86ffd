// SPDX-License-Identifier: Apache-2.0
// ContainerLog: the log protocol of one container.
//
//   splice pipe -> spool | publish intent | pwrite into the log file | publish done | punch the
//   spool
//
// Killed anywhere: bytes are in the pipe, in the spool, or named by an intent whose spool bytes are
// still there; recovery formats the same bytes again and writes them at the same place. A log file
// never shrinks, so `tail -F` shows no line twice, across rotation too.
//
// When the log file cannot be written: its rotated predecessors are given up first; then the pipes
// are left alone for kPatience (back-pressure: the container waits, nothing is lost); after that
// its output is dropped and counted, so that a full disk does not hang every container for ever,
// and one marker line names the loss as soon as the file can be written again.
//
// Single-threaded. Descriptors of idle logs are closed and opened again when needed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "runtime/keeper/common/messages.h"
#include "runtime/keeper/log/log_file.h"
#include "runtime/keeper/log/log_journal.h"
#include "runtime/keeper/log/log_spool.h"

namespace holdfast::runtime::keeper {

inline constexpr size_t kLogBatchBytes = 256 * 1024;
inline constexpr std::chrono::seconds kPatience{10};

class ContainerLog {
 public:
  enum class Progress : uint8_t {
    kOk,       // what the pipe had is committed, or waits for the rest of its line
    kBlocked,  // the log cannot be written now; call Retry later, do not read the pipe
    kEnded,    // this stream has ended and is committed
  };

  // Opens (or makes) the record of a registered log in `logs_dir` (borrowed: the keeper's logs
  // directory) and finishes what an intent of a dead logger began.
  static Result<std::unique_ptr<ContainerLog>> Open(int logs_dir, const LogRegistration& what,
                                                    const Clock& clock);
  // Reads the registration of `id`; kNotFound when it was never completed.
  static Result<LogRegistration> ReadSpec(int logs_dir, const std::string& id);
  // Removes the record; the log file stays.
  static Result<void> Remove(int logs_dir, const std::string& id);

  // Takes one batch from the stream's pipe and commits it.
  Progress Pump(LogStream stream, int pipe, size_t limit = kLogBatchBytes);
  // Takes everything the pipe holds now (at most a pipe's capacity), then treats it as ended.
  void PumpAll(LogStream stream, int pipe);
  // The stream has no pipe any more (nobody could fetch it): what is spooled is all there is.
  Progress End(LogStream stream);
  // Tries again to write what is waiting. True when the log is not blocked any more.
  bool Retry();
  Result<void> Rotate();
  // Gives memory and descriptors back that an idle log does not need.
  void Idle();

  // A new program writes for the same id: its streams have not ended.
  void Restart();
  bool ended(LogStream stream) const { return journal_.state().ended[Index(stream)]; }
  bool drained() const;
  // Position behind the last byte that left the stream's pipe.
  uint64_t TakenUpTo(LogStream stream) const;
  bool blocked() const { return blocked_since_.has_value(); }
  LogStatus status() const;
  const LogRegistration& registration() const { return registration_; }
  LogFile& file() { return file_; }
  // True once after each rotation: something may be compressed.
  bool TakeRotated() { return std::exchange(rotated_, false); }

 private:
  struct Target {
    uint64_t inode;
    uint64_t size;
  };
  ContainerLog(LogRegistration registration, UniqueFd dir, LogJournal journal, const Clock& clock);
  static size_t Index(LogStream stream) { return static_cast<size_t>(stream); }
  // Fills the spool file from its beginning again, carrying the unfinished line over.
  Result<void> Rewind(LogStream stream);
  Result<void> Recover();
  Result<void> Replay(const LogIntent& intent);
  // What an intent writes, in the shared buffer.
  Result<Formatted> Format(const LogIntent& intent);
  Result<void> Commit(LogStream stream, bool at_end);
  Result<bool> CommitBatch(LogStream stream, bool at_end);
  void PublishIntent(const Target& target, const LogIntent& intent);
  Result<Target> OpenTarget();
  Result<void> RotateNow();
  Result<void> ReportDrops();
  void Finish(LogStream stream);
  Progress AfterCommit(LogStream stream, const Result<void>& committed, bool at_end);
  void Drop();

  LogRegistration registration_;
  UniqueFd dir_;
  LogJournal journal_;
  const Clock& clock_;
  LogFile file_;
  std::array<LogSpool, 2> spools_;
  std::array<bool, 2> ending_{false, false};  // end-of-file seen, tail not yet committed
  std::optional<BootTime> blocked_since_;
  bool dropping_ = false;  // patience has run out: what cannot be written is given up at once
  bool rotated_ = false;
  bool trimmed_ = false;  // nothing was taken since Idle() gave the memory back
};

}  // namespace holdfast::runtime::keeper
