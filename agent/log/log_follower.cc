// SPDX-License-Identifier: Apache-2.0
#include "agent/log/log_follower.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/log/log_place.h"
#include "agent/view/find_container.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;

constexpr size_t kStepBytes = 64 * 1024;
// A container's end and its last lines come from different processes. After the end was seen the
// log must be quiet for so long before it counts as complete.
constexpr milliseconds kQuietAtEnd{300};
constexpr milliseconds kQuietBeforeNextRun{100};

}  // namespace

LogFollower::LogFollower(LogSources sources, LogQuestion question, LogSink& sink)
    : sources_(sources),
      question_(std::move(question)),
      sink_(sink),
      bytes_left_(question_.limit_bytes.value_or(0)) {}

std::shared_ptr<LogFollower> LogFollower::New(LogSources sources, LogQuestion question,
                                              LogSink& sink) {
  return std::shared_ptr<LogFollower>(new LogFollower(sources, std::move(question), sink));
}

void LogFollower::Start() {
  auto posted = sources_.readers.TryPost([self = shared_from_this()] { self->Open(); });
  if (posted) return;
  const std::lock_guard lock(mutex_);
  opening_ = false;
  End(posted);
}

void LogFollower::Passed() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
  }
  PostStep();
}

bool LogFollower::Cancel() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(ended_, true);
}

void LogFollower::Release() {
  const std::lock_guard lock(mutex_);
  released_ = true;
  if (!opening_) sources_.closers.Post([self = shared_from_this()] { self->StopWatching(); });
}

void LogFollower::PostStep() {
  sources_.readers.Post([self = shared_from_this()] { self->Step(); });
}

void LogFollower::Open() {
  const auto opened = OpenCursor();
  bool released = false;
  {
    const std::lock_guard lock(mutex_);
    opening_ = false;
    released = released_;
    if (!opened) End(opened);
    if (!ended_) sink_.Opened();
  }
  if (released) return StopWatching();  // the reader went away meanwhile
  if (opened) Step();
}

Result<void> LogFollower::OpenCursor() {
  ASSIGN_OR_RETURN(const PodPtr pod,
                   FindPod(sources_.pods, question_.pod_namespace, question_.pod));
  ASSIGN_OR_RETURN(container_, ChooseContainer(*pod, question_.container));
  ASSIGN_OR_RETURN(const uint32_t attempt, LogAttempt(*pod, container_, question_.previous));
  if (question_.filter.tail_lines.value_or(0) < 0) {
    return InvalidArgument("tail_lines: must not be negative");
  }
  const std::string below = LogDirectory(sources_.instance, *pod, container_);
  ASSIGN_OR_RETURN(
      DirFd directory,
      WithContext(sys::OpenDirBelow(sources_.instance.pod_log_dir, below), "log directory"));
  if (question_.follow) RETURN_IF_ERROR(WatchForChanges(directory.get(), pod));
  ASSIGN_OR_RETURN(LogCursor cursor, LogCursor::Open(std::move(directory), attempt,
                                                     question_.filter, sources_.unpacked));
  cursor_.emplace(std::move(cursor));
  return {};
}

// Before the first read, so that no change is missed.
Result<void> LogFollower::WatchForChanges(int directory, const PodPtr& pod) {
  const std::weak_ptr<LogFollower> weak = weak_from_this();
  const auto wake = [weak] {
    if (const auto follower = weak.lock()) follower->Wake();
  };
  ASSIGN_OR_RETURN(watch_, sources_.waker.Watch(directory, wake));
  pod_ = pod;
  const std::string uid = pod->metadata().uid();
  subscription_ = sources_.pods.WatchPods([weak, uid](const PodChange& change) {
    if (change.pod->metadata().uid() != uid) return;
    const auto follower = weak.lock();
    if (!follower) return;
    {
      const std::lock_guard lock(follower->mutex_);
      follower->pod_ = change.pod;
      follower->pod_gone_ = change.type == ChangeType::kDeleted;
    }
    follower->Wake();
  });
  return {};
}

// Any thread: something may be new.
void LogFollower::Wake() {
  {
    const std::lock_guard lock(mutex_);
    dirty_ = true;
    if (!parked_ || ended_) return;
    parked_ = false;
  }
  PostStep();
}

// Reads on and hands out, ends, or parks. Never runs twice at a time: a step is posted by Passed(),
// or by Wake() when parked.
void LogFollower::Step() {
  std::vector<ShownLine> lines;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      dirty_ = false;
    }
    const auto at_end = cursor_->Read(kStepBytes, lines);
    if (!at_end && at_end.error().code() != Code::kNotFound) {
      const std::lock_guard lock(mutex_);
      return End(at_end.error());
    }
    if (!lines.empty()) {
      quiet_until_.reset();
      return Hand(std::move(lines));
    }
    if (at_end && !*at_end) continue;  // lines were read and none was wanted
    const bool directory_gone = !at_end.has_value();
    const auto verdict = directory_gone ? Verdict::kComplete : AtEnd(lines);
    if (verdict == Verdict::kComplete) {
      cursor_->Flush(lines);
      last_ = true;
      return Hand(std::move(lines));
    }
    if (verdict == Verdict::kReadOn) continue;
    if (Park()) return;
  }
}

LogFollower::Verdict LogFollower::AtEnd(std::vector<ShownLine>& lines) {
  if (last_ || !question_.follow) return Verdict::kComplete;
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    over = pod_gone_ || RunsNoMore(*pod_, container_) || question_.previous ||
           (question_.one_run && RunHasEnded(*pod_, container_, cursor_->attempt()));
  }
  const auto next = NextRunExists();
  if (!over && !next) {
    quiet_until_.reset();
    return Verdict::kWait;
  }
  const auto now = LogWaker::Clock::now();
  if (!quiet_until_) quiet_until_ = now + (next ? kQuietBeforeNextRun : kQuietAtEnd);
  if (now < *quiet_until_) {
    sources_.waker.WakeAt(watch_, *quiet_until_);
    return Verdict::kWait;
  }
  if (!next) return Verdict::kComplete;
  quiet_until_.reset();
  const auto entered = cursor_->EnterNextAttempt(lines);
  return entered ? Verdict::kReadOn : Verdict::kComplete;
}

bool LogFollower::NextRunExists() {
  if (question_.previous || question_.one_run) return false;
  const auto next = cursor_->NextExists();
  return next && *next;
}

// False: something changed since the read began; read again.
bool LogFollower::Park() {
  const std::lock_guard lock(mutex_);
  if (dirty_) return false;
  parked_ = true;
  return true;
}

void LogFollower::Hand(std::vector<ShownLine> lines) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  if (lines.empty()) return End({});
  ended_ = !CutToLimit(lines) || last_;
  sink_.Take(std::move(lines), ended_);
}

// False: limit_bytes is reached with the last of them.
bool LogFollower::CutToLimit(std::vector<ShownLine>& lines) {
  if (!question_.limit_bytes) return true;
  for (size_t i = 0; i < lines.size(); ++i) {
    ShownLine& line = lines[i];
    const auto cost = static_cast<int64_t>(line.text.size() + (line.partial ? 0 : 1));
    const bool more = cost < bytes_left_;
    if (cost > bytes_left_) {
      line.text.resize(static_cast<size_t>(std::max<int64_t>(bytes_left_, 0)));
      line.partial = true;
    }
    bytes_left_ -= cost;
    if (more) continue;
    lines.resize(i + 1);
    return false;
  }
  return true;
}

void LogFollower::End(const Result<void>& result) {  // mutex_ held
  if (ended_) return;
  ended_ = true;
  sink_.End(result);
}

// On a closer: both may wait for other threads.
void LogFollower::StopWatching() {
  subscription_.reset();
  if (watch_ != 0) sources_.waker.Forget(watch_);
}

}  // namespace holdfast::agent
