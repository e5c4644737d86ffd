// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/log/container_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/keeper/log/log_format.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr char kSpecName[] = "spec";
constexpr char kJournalName[] = "journal";
constexpr size_t kMaxSpecBytes = 16 * 1024;
constexpr std::array<LogStream, 2> kStreams{LogStream::kStdout, LogStream::kStderr};

// The spool file is rewound once it is filled that far.
constexpr off64_t kRewindAt = 128 * 1024;

// Of one pipe (at most 1 MiB), while its writer may go on writing.
constexpr int kMostBatches = 8;

// A batch of one-character lines grows by 41 bytes each; what does not fit waits for the next.
constexpr size_t kOutBytes = 2 * kLogBatchBytes;

// One pair of buffers for all logs: the logger does one batch at a time.
std::span<char> InBuffer() {
  static std::vector<char> buffer(kLogBatchBytes);
  return buffer;
}
std::span<char> OutBuffer() {
  static std::vector<char> buffer(kOutBytes);
  return buffer;
}

}  // namespace

ContainerLog::ContainerLog(LogRegistration registration, UniqueFd dir, LogJournal journal,
                           const Clock& clock)
    : registration_(std::move(registration)),
      dir_(std::move(dir)),
      journal_(std::move(journal)),
      clock_(clock),
      file_(registration_.spec),
      spools_{LogSpool(dir_.get(), "1.spool"), LogSpool(dir_.get(), "2.spool")} {}

Result<std::unique_ptr<ContainerLog>> ContainerLog::Open(int logs_dir, const LogRegistration& what,
                                                         const Clock& clock) {
  RETURN_IF_ERROR(sys::MakeDirs(logs_dir, what.id, 0700));
  ASSIGN_OR_RETURN(UniqueFd dir, sys::OpenAt(logs_dir, what.id, O_RDONLY | O_DIRECTORY));
  ASSIGN_OR_RETURN(LogJournal journal, LogJournal::Open(dir.get(), kJournalName));
  const int dir_fd = dir.get();
  std::unique_ptr<ContainerLog> log(
      new ContainerLog(what, std::move(dir), std::move(journal), clock));
  RETURN_IF_ERROR(log->Recover());
  HOLDFAST_PAUSE_POINT("log.before-spec");
  // Last: a record with a spec is complete.
  RETURN_IF_ERROR(sys::WriteFileAtomicAt(dir_fd, kSpecName, Encode(what), 0600, false));
  return log;
}

Result<LogRegistration> ContainerLog::ReadSpec(int logs_dir, const std::string& id) {
  ASSIGN_OR_RETURN(const std::string text,
                   sys::ReadFileAt(logs_dir, StrCat(id, "/", kSpecName), kMaxSpecBytes));
  return DecodeLogRegistration(text);
}

Result<void> ContainerLog::Remove(int logs_dir, const std::string& id) {
  RETURN_IF_ERROR(sys::RemoveFileAt(logs_dir, StrCat(id, "/", kSpecName)));
  HOLDFAST_PAUSE_POINT("log.unregistered");
  return sys::RemoveTreeAt(logs_dir, id);
}

bool ContainerLog::drained() const {
  const LogState& state = journal_.state();
  return state.ended[0] && (state.ended[1] || registration_.tty);
}

void ContainerLog::Restart() {
  LogState state = journal_.state();
  state.ended[0] = state.ended[1] = false;
  journal_.Publish(state);
  ending_ = {false, false};
}

LogStatus ContainerLog::status() const {
  const LogState& state = journal_.state();
  return {drained(), TakenUpTo(LogStream::kStdout) + TakenUpTo(LogStream::kStderr),
          state.dropped_bytes, state.rotations};
}

uint64_t ContainerLog::TakenUpTo(LogStream stream) const {
  const LogState& state = journal_.state();
  const size_t i = Index(stream);
  return state.base[i] + static_cast<uint64_t>(*journal_.cell(stream, state.window[i]));
}

Result<void> ContainerLog::Rewind(LogStream stream) {
  const size_t i = Index(stream);
  LogState state = journal_.state();
  const uint64_t taken = TakenUpTo(stream);
  const uint64_t from = state.done[i] - state.base[i];
  const size_t tail = taken - state.done[i];
  if (from == 0 || tail > from) return {};  // the copy would overlap its source
  if (tail > 0) {
    const std::span<char> bytes = InBuffer().first(tail);
    RETURN_IF_ERROR(spools_[i].Read(from, bytes));
    RETURN_IF_ERROR(spools_[i].Write(0, bytes));
  }
  HOLDFAST_PAUSE_POINT("log.before-rewind");
  state.window[i] = static_cast<uint8_t>(1 - state.window[i]);
  state.base[i] = state.done[i];
  *journal_.cell(stream, state.window[i]) = static_cast<off64_t>(tail);
  journal_.Publish(state);
  return {};
}

Result<void> ContainerLog::Recover() {
  const LogState& state = journal_.state();
  for (LogStream stream : kStreams) {
    const size_t i = Index(stream);
    const uint64_t taken = TakenUpTo(stream);
    ASSIGN_OR_RETURN(const uint64_t size, spools_[i].FileSize());
    if (state.done[i] < state.base[i] || taken < state.done[i] || taken - state.base[i] > size) {
      return Internal(StrCat("log of ", registration_.id, ": spool and journal do not fit"));
    }
  }
  if (!state.intent.active) return {};
  // A log that cannot be written now is retried like any other: the intent stays.
  if (auto replayed = Replay(state.intent); !replayed) blocked_since_ = clock_.Boot();
  return {};
}

// Writes the same bytes at the same place again, wherever the file has been renamed to since.
Result<void> ContainerLog::Replay(const LogIntent& intent) {
  RETURN_IF_ERROR(file_.EnsureOpen());
  ASSIGN_OR_RETURN(const Formatted text, Format(intent));
  const std::span<const char> bytes = OutBuffer().first(text.produced);
  LogState state = journal_.state();
  ASSIGN_OR_RETURN(const LogFile::Facts facts, file_.Stat());
  UniqueFd renamed;
  if (facts.inode != state.log_inode) {
    if (auto found = file_.OpenByInode(state.log_inode); found) renamed = std::move(*found);
  }
  if (renamed) {
    RETURN_IF_ERROR(LogFile::WriteAt(renamed.get(), intent.offset, bytes));
  } else {
    // The file is gone, or somebody truncated it: then its end is the place.
    const bool same = facts.inode == state.log_inode && facts.size >= intent.offset;
    RETURN_IF_ERROR(file_.WriteAt(same ? intent.offset : facts.size, bytes));
    state.log_inode = facts.inode;
  }
  HOLDFAST_PAUSE_POINT("log.replayed");
  state.done[Index(intent.stream)] = intent.end;
  if (intent.IsMarker()) state.unreported_drops = 0;
  state.intent = {};
  journal_.Publish(state);
  return {};
}

Result<Formatted> ContainerLog::Format(const LogIntent& intent) {
  const LogState& state = journal_.state();
  const WallTime time{std::chrono::nanoseconds(intent.time_ns)};
  if (intent.IsMarker()) {
    const std::string line =
        StrCat("holdfast: ", state.unreported_drops,
               " bytes of output were lost here: the log could not be written\n");
    return FormatEntries(line, intent.stream, time, true, OutBuffer());
  }
  const size_t i = Index(intent.stream);
  const std::span<char> in = InBuffer().first(intent.end - intent.begin);
  RETURN_IF_ERROR(spools_[i].Read(intent.begin - state.base[i], in));
  return FormatEntries(std::string_view(in.data(), in.size()), intent.stream, time, true,
                       OutBuffer());
}

ContainerLog::Progress ContainerLog::Pump(LogStream stream, int pipe, size_t limit) {
  LogSpool& spool = spools_[Index(stream)];
  off64_t* cell = journal_.cell(stream, journal_.state().window[Index(stream)]);
  auto taken = spool.TakeFrom(pipe, limit, cell);
  trimmed_ = false;
  HOLDFAST_PAUSE_POINT("log.spliced");
  if (!taken) return AfterCommit(stream, std::move(taken.error()), false);
  const bool at_end = *taken == LogSpool::Taken::kEnd;
  if (at_end) ending_[Index(stream)] = true;
  return AfterCommit(stream, Commit(stream, at_end), at_end);
}

void ContainerLog::PumpAll(LogStream stream, int pipe) {
  for (int batch = 0; batch < kMostBatches && pipe >= 0; ++batch) {
    const uint64_t before = TakenUpTo(stream);
    if (Pump(stream, pipe) != Progress::kOk) return;
    if (TakenUpTo(stream) == before) break;
  }
  (void)End(stream);  // a log that cannot be written loses this, as the caller gives it up
}

ContainerLog::Progress ContainerLog::End(LogStream stream) {
  if (ended(stream)) return Progress::kEnded;
  ending_[Index(stream)] = true;
  return AfterCommit(stream, Commit(stream, true), true);
}

ContainerLog::Progress ContainerLog::AfterCommit(LogStream stream, const Result<void>& committed,
                                                 bool at_end) {
  if (!committed && dropping_) {
    Drop();
  } else if (!committed) {
    if (!blocked_since_) blocked_since_ = clock_.Boot();
    return Progress::kBlocked;
  } else {
    dropping_ = false;
  }
  if (!at_end) return Progress::kOk;
  Finish(stream);
  return Progress::kEnded;
}

void ContainerLog::Finish(LogStream stream) {
  LogState state = journal_.state();
  state.ended[Index(stream)] = true;
  journal_.Publish(state);
  ending_[Index(stream)] = false;
  HOLDFAST_PAUSE_POINT("log.stream-ended");
}

Result<void> ContainerLog::Commit(LogStream stream, bool at_end) {
  if (journal_.state().intent.active) RETURN_IF_ERROR(Replay(journal_.state().intent));
  if (journal_.state().unreported_drops != 0) RETURN_IF_ERROR(ReportDrops());
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, CommitBatch(stream, at_end));
    if (!more) break;
  }
  const LogState& state = journal_.state();
  if (*journal_.cell(stream, state.window[Index(stream)]) < kRewindAt) return {};
  return Rewind(stream);
}

// One intent. False when nothing (more) can be committed of what is spooled.
Result<bool> ContainerLog::CommitBatch(LogStream stream, bool at_end) {
  LogSpool& spool = spools_[Index(stream)];
  LogState state = journal_.state();
  const uint64_t begin = state.done[Index(stream)];
  const uint64_t taken = TakenUpTo(stream);
  const size_t available = std::min<uint64_t>(taken - begin, kLogBatchBytes);
  if (available == 0) return false;
  const std::span<char> in = InBuffer().first(available);
  RETURN_IF_ERROR(spool.Read(begin - state.base[Index(stream)], in));
  ASSIGN_OR_RETURN(const Target target, OpenTarget());

  const uint64_t room = file_.capacity() - std::min(target.size, file_.capacity());
  const std::span<char> out = OutBuffer().first(std::min<uint64_t>(room, kOutBytes));
  const WallTime now = clock_.Wall();
  // Only the last part of the spool can end without a newline.
  const bool last = at_end && begin + available == taken;
  const Formatted text =
      FormatEntries(std::string_view(in.data(), in.size()), stream, now, last, out);
  if (text.consumed == 0) {
    if (!text.full) return false;
    RETURN_IF_ERROR(RotateNow());
    return true;
  }
  PublishIntent(target, {true, stream, last, begin, begin + text.consumed, now.since_epoch.count(),
                         target.size});
  RETURN_IF_ERROR(file_.WriteAt(target.size, out.first(text.produced)));
  HOLDFAST_PAUSE_POINT("log.written");
  state = journal_.state();
  state.done[Index(stream)] = state.intent.end;
  state.intent = {};
  journal_.Publish(state);
  HOLDFAST_PAUSE_POINT("log.done-published");
  return text.full || begin + available < taken;
}

void ContainerLog::PublishIntent(const Target& target, const LogIntent& intent) {
  LogState state = journal_.state();
  state.log_inode = target.inode;
  state.intent = intent;
  journal_.Publish(state);
  HOLDFAST_PAUSE_POINT("log.intent-published");
}

// Others may have truncated or removed the file, so its size is asked for, not remembered.
Result<ContainerLog::Target> ContainerLog::OpenTarget() {
  RETURN_IF_ERROR(file_.EnsureOpen());
  ASSIGN_OR_RETURN(LogFile::Facts facts, file_.Stat());
  if (facts.unlinked) {
    file_.Close();
    RETURN_IF_ERROR(file_.EnsureOpen());
    ASSIGN_OR_RETURN(facts, file_.Stat());
  }
  return Target{facts.inode, facts.size};
}

Result<void> ContainerLog::Rotate() {
  if (journal_.state().intent.active) RETURN_IF_ERROR(Replay(journal_.state().intent));
  return RotateNow();
}

Result<void> ContainerLog::RotateNow() {
  RETURN_IF_ERROR(file_.Rotate(clock_.Wall()));
  LogState state = journal_.state();
  ++state.rotations;
  journal_.Publish(state);
  rotated_ = true;
  return {};
}

bool ContainerLog::Retry() {
  if (!blocked_since_) return true;
  file_.Close();
  for (LogStream stream : kStreams) {
    const bool at_end = ending_[Index(stream)];
    auto committed = Commit(stream, at_end);
    if (!committed && committed.error().code() == Code::kResourceExhausted) {
      file_.DropRotated();
      committed = Commit(stream, at_end);
    }
    if (!committed) {
      if (clock_.Boot() - *blocked_since_ < kPatience) return false;
      dropping_ = true;
      Drop();
    }
    if (at_end) Finish(stream);
  }
  blocked_since_.reset();
  return true;
}

// Gives up what is spooled, but not what the log holds of an unfinished batch: its whole lines
// would have to be told from its torn one, so the batch is cut off the file's end again. So is a
// marker line that was torn: what it told is told by the next one.
void ContainerLog::Drop() {
  LogState state = journal_.state();
  if (state.intent.active && file_.EnsureOpen()) {
    const auto facts = file_.Stat();
    if (facts && facts->inode == state.log_inode && facts->size > state.intent.offset) {
      (void)file_.Truncate(state.intent.offset);  // a torn line is all that it could leave
    }
  }
  state.intent = {};
  for (LogStream stream : kStreams) {
    const uint64_t lost = TakenUpTo(stream) - state.done[Index(stream)];
    state.done[Index(stream)] += lost;
    state.dropped_bytes += lost;
    state.unreported_drops += lost;
  }
  journal_.Publish(state);
  for (LogStream stream : kStreams) (void)Rewind(stream);  // nothing to carry over: cannot fail
}

// Written under an intent like all else: neither torn for good nor told twice.
Result<void> ContainerLog::ReportDrops() {
  ASSIGN_OR_RETURN(const Target target, OpenTarget());
  const uint64_t here = journal_.state().done[Index(LogStream::kStderr)];
  PublishIntent(target, {true, LogStream::kStderr, true, here, here,
                         clock_.Wall().since_epoch.count(), target.size});
  return Replay(journal_.state().intent);
}

void ContainerLog::Idle() {
  for (LogStream stream : kStreams) {
    LogSpool& spool = spools_[Index(stream)];
    const LogState& state = journal_.state();
    if (!trimmed_ && !state.intent.active && Rewind(stream)) {
      (void)spool.Truncate(TakenUpTo(stream) - journal_.state().base[Index(stream)]);
    }
    spool.CloseIdle();
  }
  trimmed_ = true;
  file_.Close();
}

}  // namespace holdfast::runtime::keeper
