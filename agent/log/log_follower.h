// SPDX-License-Identifier: Apache-2.0
// LogFollower: one reader of one container's log, whichever API it is for, from a place in it to its
// end, or on as it grows until the container runs no more. It hands its lines out in batches and
// reads on when one has been passed on, so the reader's pace is the log's and nothing is queued:
// what is unread stays in the files. At the end a follower parks until LogWaker or the pod's status
// wakes it. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/worker_pool.h"
#include "agent/log/log_cursor.h"
#include "agent/log/log_waker.h"
#include "agent/log/unpacked_logs.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/result.h"
#include "holdfast/model/instance.h"

namespace holdfast::agent {

struct LogQuestion {
  std::string pod_namespace;
  std::string pod;
  std::string container;  // empty: the pod's default
  bool previous = false;  // the run before
  bool follow = false;
  bool one_run = false;  // following ends with the run, also when another one comes
  LogFilter filter;
  std::optional<int64_t> limit_bytes;  // of text with line ends
};

// What the readers of one API share. Borrowed; outlives them.
struct LogSources {
  PodView& pods;
  const model::Instance& instance;
  UnpackedLogs& unpacked;
  LogWaker& waker;
  WorkerPool& readers;  // files are read here; TryPost() says how many may
  WorkerPool& closers;  // where an end may wait for other threads
};

// Where the lines go to. Called from any thread, one call at a time; must not block nor call back.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // There is such a log. Before the first lines, which may be long in coming.
  virtual void Opened() {}
  // `last`: all is told. Otherwise the next batch comes after LogFollower::Passed().
  virtual void Take(std::vector<ShownLine> lines, bool last) = 0;
  // In place of a last batch; also when there was none.
  virtual void End(const Result<void>& result) = 0;
};

class LogFollower : public std::enable_shared_from_this<LogFollower> {
 public:
  // `sink` is used until Release().
  static std::shared_ptr<LogFollower> New(LogSources sources, LogQuestion question, LogSink& sink);

  void Start();
  void Passed();
  // Nobody wants more. True: the sink hears nothing more, and had not heard of an end.
  bool Cancel();
  // To be called once, after an end or a Cancel(). The sink is not used when it has returned.
  void Release();

 private:
  enum class Verdict { kComplete, kReadOn, kWait };

  LogFollower(LogSources sources, LogQuestion question, LogSink& sink);
  void PostStep();
  void Open();
  Result<void> OpenCursor();
  Result<void> WatchForChanges(int directory, const PodPtr& pod);
  void Wake();
  void Step();
  Verdict AtEnd(std::vector<ShownLine>& lines);
  bool NextRunExists();
  bool Park();
  void Hand(std::vector<ShownLine> lines);
  bool CutToLimit(std::vector<ShownLine>& lines);
  void End(const Result<void>& result);
  void StopWatching();

  const LogSources sources_;
  const LogQuestion question_;
  LogSink& sink_;
  // Of the step that runs:
  std::string container_;
  std::optional<LogCursor> cursor_;
  std::optional<LogWaker::Clock::time_point> quiet_until_;
  int64_t bytes_left_;
  bool last_ = false;
  LogWaker::Id watch_ = 0;
  std::unique_ptr<Subscription> subscription_;

  std::mutex mutex_;  // held while the sink is called
  PodPtr pod_;        // newest; guarded by mutex_, as all below
  bool pod_gone_ = false;
  bool opening_ = true;
  bool released_ = false;
  bool dirty_ = false;
  bool parked_ = false;
  bool ended_ = false;
};

}  // namespace holdfast::agent
