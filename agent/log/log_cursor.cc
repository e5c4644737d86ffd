// SPDX-License-Identifier: Apache-2.0
#include "agent/log/log_cursor.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr size_t kBlock = 64 * 1024;
// An entry is at most 16 KiB and its head; anything longer is no log of ours.
constexpr size_t kMaxEntry = 1024 * 1024;
// Files are rotated away between listing and opening so often in a row at most.
constexpr int kMostRaces = 100;

Result<std::string> ReadBlock(int fd, off_t offset, size_t size) {
  std::string block(size, '\0');
  while (true) {
    const ssize_t count = ::pread(fd, block.data(), size, offset);
    if (count >= 0) {
      block.resize(static_cast<size_t>(count));
      return block;
    }
    if (errno != EINTR) return Error::FromErrno(errno, "read log");
  }
}

bool Matches(const CriLine& line, const LogFilter& filter) {
  return !filter.stream || *filter.stream == line.stream;
}

// Walks back from the end of `fd` over complete entries and counts finished lines that `filter`
// wants. Ends at the (`lines` + 1)-th and returns the offset just behind it, or nullopt with
// `lines` reduced by what was found.
Result<std::optional<off_t>> FindTail(int fd, const LogFilter& filter, int64_t& lines) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return Error::FromErrno(errno, "stat log");
  off_t block_begin = info.st_size;
  std::string tail;  // from block_begin up to the entry that was counted last
  int64_t found = 0;
  while (block_begin > 0) {
    const auto size = static_cast<size_t>(std::min<off_t>(block_begin, kBlock));
    block_begin -= static_cast<off_t>(size);
    ASSIGN_OR_RETURN(std::string block, ReadBlock(fd, block_begin, size));
    tail.insert(0, block);
    // An entry is complete in `tail` when the newline before it is there too.
    size_t end = tail.rfind('\n');
    while (end != std::string::npos) {
      const size_t before = end == 0 ? std::string::npos : tail.rfind('\n', end - 1);
      if (before == std::string::npos && block_begin > 0) break;
      const size_t begin = before == std::string::npos ? 0 : before + 1;
      const auto entry = ParseCriLine(std::string_view(tail).substr(begin, end - begin));
      if (entry && !entry->partial && Matches(*entry, filter) && ++found > lines) {
        return std::optional<off_t>(block_begin + static_cast<off_t>(end) + 1);
      }
      tail.resize(begin);
      end = begin == 0 ? std::string::npos : begin - 1;
    }
    if (tail.size() > kMaxEntry) tail.clear();
  }
  lines -= found;
  return std::optional<off_t>();
}

}  // namespace

LogCursor::LogCursor(DirFd directory, uint32_t attempt, LogFilter filter, UnpackedLogs& unpacked)
    : directory_(std::move(directory)), attempt_(attempt), filter_(filter), unpacked_(&unpacked) {}

Result<LogCursor> LogCursor::Open(DirFd directory, uint32_t attempt, LogFilter filter,
                                  UnpackedLogs& unpacked) {
  LogCursor cursor(std::move(directory), attempt, filter, unpacked);
  RETURN_IF_ERROR(cursor.Start());
  return cursor;
}

Result<void> LogCursor::Start() {
  for (int races_left = kMostRaces;; --races_left) {
    ASSIGN_OR_RETURN(const std::vector<LogSegment> segments,
                     ListSegments(directory_.get(), attempt_));
    if (segments.empty()) return NotFound(StrCat("log file ", attempt_, ".log: not there"));
    auto started = filter_.tail_lines ? StartAtTail(segments, *filter_.tail_lines)
                                      : EnterSegment(segments.front(), 0);
    if (started || started.error().code() != Code::kNotFound || races_left == 0) return started;
  }
}

Result<void> LogCursor::StartAtTail(const std::vector<LogSegment>& segments, int64_t lines) {
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    RETURN_IF_ERROR(EnterSegment(*segment, 0));
    ASSIGN_OR_RETURN(const std::optional<off_t> start, FindTail(file_->get(), filter_, lines));
    if (start) {
      offset_ = *start;
      return {};
    }
  }
  return {};  // fewer lines than wanted: from the oldest segment's start
}

Result<void> LogCursor::EnterSegment(const LogSegment& segment, off_t offset) {
  ASSIGN_OR_RETURN(file_, OpenSegment(directory_.get(), segment, *unpacked_));
  segment_ = segment;
  segment_.held.reset();  // file_ holds it
  offset_ = offset;
  buffer_.clear();
  taken_ = 0;
  return {};
}

Result<std::optional<LogSegment>> LogCursor::FollowingSegment() {
  ASSIGN_OR_RETURN(const std::vector<LogSegment> segments,
                   ListSegments(directory_.get(), attempt_));
  if (segment_.live()) {
    const auto here = std::find_if(segments.begin(), segments.end(), [this](const LogSegment& s) {
      return s.inode == segment_.inode;
    });
    if (here == segments.end()) {
      // Rotated and then compressed or removed before we looked: go through what is there and leave
      // out what was shown.
      if (segments.empty()) return std::optional<LogSegment>();
      skip_through_ = last_time_;
      return std::optional<LogSegment>(segments.front());
    }
    if (here->live()) return std::optional<LogSegment>();
    segment_ = *here;
  }
  for (const LogSegment& segment : segments) {
    if (segment_.IsOlderThan(segment)) return std::optional<LogSegment>(segment);
  }
  return std::optional<LogSegment>();
}

Result<void> LogCursor::EnterFollowing(LogSegment next) {
  for (int races_left = kMostRaces;; --races_left) {
    auto entered = EnterSegment(next, 0);
    if (entered || entered.error().code() != Code::kNotFound || races_left == 0) return entered;
    // Rotated or removed since it was listed: look again.
    ASSIGN_OR_RETURN(const std::optional<LogSegment> following, FollowingSegment());
    if (!following) return {};
    next = *following;
  }
}

Result<bool> LogCursor::Fill() {
  buffer_.erase(0, taken_);
  taken_ = 0;
  if (buffer_.size() > kMaxEntry) buffer_.clear();
  ASSIGN_OR_RETURN(const std::string block, ReadBlock(file_->get(), offset_, kBlock));
  offset_ += static_cast<off_t>(block.size());
  buffer_ += block;
  return !block.empty();
}

void LogCursor::TakeLines(size_t max_bytes, std::vector<ShownLine>& out) {
  size_t shown = 0;
  while (shown < max_bytes) {
    const size_t end = buffer_.find('\n', taken_);
    if (end == std::string::npos) return;
    const auto line = ParseCriLine(std::string_view(buffer_).substr(taken_, end - taken_));
    shown += end - taken_;
    taken_ = end + 1;
    if (!line || line->time <= skip_through_) continue;
    skip_through_ = {};  // past the gap; from here on even a clock that was set back hides nothing
    last_time_ = line->time;
    if (!Matches(*line, filter_) || line->time < filter_.since) continue;
    joiner_.Add(*line, out);
  }
}

Result<bool> LogCursor::Read(size_t max_bytes, std::vector<ShownLine>& out) {
  size_t budget = max_bytes;
  while (true) {
    const size_t before = buffer_.size() - taken_;
    TakeLines(budget, out);
    const size_t used = before - (buffer_.size() - taken_);
    if (used >= budget) return false;
    budget -= used;
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (more) continue;
    ASSIGN_OR_RETURN(const std::optional<LogSegment> next, FollowingSegment());
    if (!next) return true;
    // The writer has moved on; what it wrote between our last read and that must not be lost.
    ASSIGN_OR_RETURN(const bool late, Fill());
    if (late) continue;
    RETURN_IF_ERROR(EnterFollowing(*next));
  }
}

Result<bool> LogCursor::NextExists() const {
  ASSIGN_OR_RETURN(const std::optional<uint32_t> next, NextAttempt(directory_.get(), attempt_));
  return next.has_value();
}

Result<bool> LogCursor::EnterNextAttempt(std::vector<ShownLine>& out) {
  ASSIGN_OR_RETURN(const std::optional<uint32_t> next, NextAttempt(directory_.get(), attempt_));
  if (!next) return false;
  attempt_ = *next;
  skip_through_ = {};
  filter_.tail_lines.reset();  // counted in the run that was asked for
  Flush(out);
  RETURN_IF_ERROR(Start());
  return true;
}

}  // namespace holdfast::agent
