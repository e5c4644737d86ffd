// SPDX-License-Identifier: Apache-2.0
// Logs: one reader of one container's log. Steps run on ServerCore::log_readers; one message is
// under way at a time, so the caller's pace is the stream's and nothing is queued: what is unread
// stays in the files. At the end a follower parks until LogWaker or the pod's status wakes it.
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "agent/api/grpc/service.h"
#include "agent/api/grpc/status_map.h"
#include "agent/log/log_cursor.h"
#include "agent/log/log_place.h"
#include "agent/view/find_container.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent::api {
namespace {

using std::chrono::milliseconds;

constexpr size_t kStepBytes = 64 * 1024;
// A container's end and its last lines come from different processes. After the end was seen the
// log must be quiet for so long before it counts as complete.
constexpr milliseconds kQuietAtEnd{300};
constexpr milliseconds kQuietBeforeNextRun{100};

class LogReadStream final : public grpc::ServerWriteReactor<v1::LogsResponse>,
                            public std::enable_shared_from_this<LogReadStream> {
 public:
  LogReadStream(ServerCore& core, const v1::LogsRequest& request)
      : core_(core), request_(request), bytes_left_(request.limit_bytes()) {}

  static LogReadStream* Start(std::shared_ptr<LogReadStream> stream) {
    stream->self_ = stream;
    if (auto posted = stream->core_.log_readers.TryPost([stream] { stream->Open(); }); !posted) {
      const std::lock_guard lock(stream->mutex_);
      stream->End(ToStatus(posted.error()));
    }
    return stream.get();
  }

  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      if (!ok) End(grpc::Status::CANCELLED);
      if (ended_) return;
    }
    PostStep();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    End(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    const auto self = std::move(self_);
    const std::lock_guard lock(mutex_);
    done_ = true;
    if (!opening_) core_.requests.Post([self] { self->StopWatching(); });
  }

 private:
  void PostStep() {
    core_.log_readers.Post([self = shared_from_this()] { self->Step(); });
  }

  void Open() {
    const auto opened = OpenCursor();
    bool done = false;
    {
      const std::lock_guard lock(mutex_);
      opening_ = false;
      if (!opened) End(ToStatus(opened.error()));
      done = done_;
    }
    if (done) return StopWatching();  // the caller went away meanwhile
    if (opened) Step();
  }

  Result<void> OpenCursor() {
    ASSIGN_OR_RETURN(const PodPtr pod,
                     FindPod(core_.node.pods(), request_.namespace_(), request_.pod()));
    ASSIGN_OR_RETURN(container_, ChooseContainer(*pod, request_.container()));
    ASSIGN_OR_RETURN(const uint32_t attempt, LogAttempt(*pod, container_, request_.previous()));
    LogFilter filter{.stream = std::nullopt, .since = {}, .tail_lines = std::nullopt};
    if (request_.stream() == v1::LOG_STREAM_STDOUT) filter.stream = LogStreamKind::kStdout;
    if (request_.stream() == v1::LOG_STREAM_STDERR) filter.stream = LogStreamKind::kStderr;
    filter.since = WallTime{std::chrono::nanoseconds(request_.since_unix_nanos())};
    if (request_.has_tail_lines()) {
      if (request_.tail_lines() < 0) return InvalidArgument("tail_lines: must not be negative");
      filter.tail_lines = request_.tail_lines();
    }
    const model::Instance& instance = core_.instance;
    const std::string below = LogDirectory(instance, *pod, container_);
    ASSIGN_OR_RETURN(DirFd directory,
                     WithContext(sys::OpenDirBelow(instance.pod_log_dir, below), "log directory"));
    if (request_.follow()) RETURN_IF_ERROR(WatchForChanges(directory.get(), pod));
    ASSIGN_OR_RETURN(LogCursor cursor,
                     LogCursor::Open(std::move(directory), attempt, filter, core_.unpacked_logs));
    cursor_.emplace(std::move(cursor));
    return {};
  }

  // Before the first read, so that no change is missed.
  Result<void> WatchForChanges(int directory, const PodPtr& pod) {
    const std::weak_ptr<LogReadStream> weak = weak_from_this();
    const auto wake = [weak] {
      if (const auto stream = weak.lock()) stream->Wake();
    };
    ASSIGN_OR_RETURN(watch_, core_.log_waker.Watch(directory, wake));
    pod_ = pod;
    const std::string uid = pod->metadata().uid();
    subscription_ = core_.node.pods().WatchPods([weak, uid](const PodChange& change) {
      if (change.pod->metadata().uid() != uid) return;
      const auto stream = weak.lock();
      if (!stream) return;
      {
        const std::lock_guard lock(stream->mutex_);
        stream->pod_ = change.pod;
        stream->pod_gone_ = change.type == ChangeType::kDeleted;
      }
      stream->Wake();
    });
    return {};
  }

  // Any thread: something may be new.
  void Wake() {
    {
      const std::lock_guard lock(mutex_);
      dirty_ = true;
      if (!parked_ || ended_) return;
      parked_ = false;
    }
    PostStep();
  }

  // Reads on and sends, ends, or parks. Never runs twice at a time: a step is posted by the end of
  // a write, or by Wake() when parked.
  void Step() {
    std::vector<ShownLine> lines;
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (ended_) return;
        dirty_ = false;
      }
      const auto at_end = cursor_->Read(kStepBytes, lines);
      if (!at_end && at_end.error().code() != Code::kNotFound)
        return Stop(ToStatus(at_end.error()));
      if (!lines.empty()) {
        quiet_until_.reset();
        return Send(lines);
      }
      if (at_end && !*at_end) continue;  // lines were read and none was wanted
      const bool directory_gone = !at_end.has_value();
      const auto verdict = directory_gone ? Verdict::kComplete : AtEnd(lines);
      if (verdict == Verdict::kComplete) {
        cursor_->Flush(lines);
        last_ = true;
        return lines.empty() ? Stop(grpc::Status::OK) : Send(lines);
      }
      if (verdict == Verdict::kReadOn) continue;
      if (Park()) return;
    }
  }

  enum class Verdict { kComplete, kReadOn, kWait };

  Verdict AtEnd(std::vector<ShownLine>& lines) {
    if (last_ || !request_.follow()) return Verdict::kComplete;
    bool over = false;
    {
      const std::lock_guard lock(mutex_);
      over = pod_gone_ || RunsNoMore(*pod_, container_) || request_.previous();
    }
    const auto next = NextRunExists();
    if (!over && !next) {
      quiet_until_.reset();
      return Verdict::kWait;
    }
    const auto now = LogWaker::Clock::now();
    if (!quiet_until_) quiet_until_ = now + (next ? kQuietBeforeNextRun : kQuietAtEnd);
    if (now < *quiet_until_) {
      core_.log_waker.WakeAt(watch_, *quiet_until_);
      return Verdict::kWait;
    }
    if (!next) return Verdict::kComplete;
    quiet_until_.reset();
    const auto entered = cursor_->EnterNextAttempt(lines);
    return entered ? Verdict::kReadOn : Verdict::kComplete;
  }

  bool NextRunExists() {
    if (request_.previous()) return false;
    const auto next = cursor_->NextExists();
    return next && *next;
  }

  // False: something changed since the read began; read again.
  bool Park() {
    const std::lock_guard lock(mutex_);
    if (dirty_) return false;
    parked_ = true;
    return true;
  }

  void Send(std::vector<ShownLine>& lines) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    response_.Clear();
    bool limit_reached = false;
    for (ShownLine& line : lines) {
      if (limit_reached) break;
      limit_reached = !Append(line);
    }
    if (limit_reached || last_) {
      ended_ = true;
      StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
    } else {
      StartWrite(&response_);
    }
  }

  // False: limit_bytes is reached with this line.
  bool Append(ShownLine& line) {
    bool more = true;
    if (request_.has_limit_bytes()) {
      const auto cost = static_cast<int64_t>(line.text.size() + (line.partial ? 0 : 1));
      more = cost < bytes_left_;
      if (cost > bytes_left_) {
        line.text.resize(static_cast<size_t>(std::max<int64_t>(bytes_left_, 0)));
        line.partial = true;
      }
      bytes_left_ -= cost;
    }
    v1::LogLine& out = *response_.add_lines();
    out.set_time_unix_nanos(line.time.since_epoch.count());
    out.set_stream(line.stream == LogStreamKind::kStdout ? v1::LOG_STREAM_STDOUT
                                                         : v1::LOG_STREAM_STDERR);
    out.set_text(std::move(line.text));
    out.set_partial(line.partial);
    return more;
  }

  void Stop(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    End(status);
  }

  void End(const grpc::Status& status) {  // mutex_ held
    if (ended_) return;
    ended_ = true;
    Finish(status);
  }

  // On a request worker: both may wait for other threads.
  void StopWatching() {
    subscription_.reset();
    if (watch_ != 0) core_.log_waker.Forget(watch_);
  }

  ServerCore& core_;
  const v1::LogsRequest request_;
  std::shared_ptr<LogReadStream> self_;
  // Of the step that runs:
  std::string container_;
  std::optional<LogCursor> cursor_;
  std::optional<LogWaker::Clock::time_point> quiet_until_;
  int64_t bytes_left_;
  bool last_ = false;
  LogWaker::Id watch_ = 0;
  std::unique_ptr<Subscription> subscription_;
  v1::LogsResponse response_;

  std::mutex mutex_;
  PodPtr pod_;  // newest; guarded by mutex_, as all below
  bool pod_gone_ = false;
  bool opening_ = true;
  bool done_ = false;
  bool dirty_ = false;
  bool parked_ = false;
  bool ended_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::LogsResponse>* NodeAgentService::Logs(
    grpc::CallbackServerContext* context, const v1::LogsRequest* request) {
  if (const auto refusal = Refusal(*context, Method::kLogs)) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::LogsResponse>>(*refusal);
  }
  return LogReadStream::Start(std::make_shared<LogReadStream>(core_, *request));
}

}  // namespace holdfast::agent::api
