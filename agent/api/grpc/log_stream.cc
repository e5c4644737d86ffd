// SPDX-License-Identifier: Apache-2.0
// Logs: a LogFollower's lines as messages of a stream, one under way at a time.
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "agent/api/grpc/service.h"
#include "agent/api/grpc/status_map.h"
#include "agent/log/log_follower.h"

namespace holdfast::agent::api {
namespace {

LogQuestion QuestionOf(const v1::LogsRequest& request) {
  LogQuestion question;
  question.pod_namespace = request.namespace_();
  question.pod = request.pod();
  question.container = request.container();
  question.previous = request.previous();
  question.follow = request.follow();
  if (request.stream() == v1::LOG_STREAM_STDOUT) question.filter.stream = LogStreamKind::kStdout;
  if (request.stream() == v1::LOG_STREAM_STDERR) question.filter.stream = LogStreamKind::kStderr;
  question.filter.since = WallTime{std::chrono::nanoseconds(request.since_unix_nanos())};
  if (request.has_tail_lines()) question.filter.tail_lines = request.tail_lines();
  if (request.has_limit_bytes()) question.limit_bytes = request.limit_bytes();
  return question;
}

// Owns itself until OnDone().
class LogReadStream final : public grpc::ServerWriteReactor<v1::LogsResponse>, public LogSink {
 public:
  LogReadStream(ServerCore& core, const v1::LogsRequest& request)
      : follower_(LogFollower::New({.pods = core.node.pods(),
                                    .instance = core.instance,
                                    .unpacked = core.unpacked_logs,
                                    .waker = core.log_waker,
                                    .readers = core.log_readers,
                                    .closers = core.requests},
                                   QuestionOf(request), *this)) {}

  LogReadStream* Start() {
    follower_->Start();
    return this;
  }

  void OnWriteDone(bool ok) override { ok ? follower_->Passed() : OnCancel(); }

  void OnCancel() override {
    if (follower_->Cancel()) Finish(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    follower_->Release();
    delete this;
  }

  void Take(std::vector<ShownLine> lines, bool last) override {
    response_.Clear();
    for (ShownLine& line : lines) {
      v1::LogLine& out = *response_.add_lines();
      out.set_time_unix_nanos(line.time.since_epoch.count());
      out.set_stream(line.stream == LogStreamKind::kStdout ? v1::LOG_STREAM_STDOUT
                                                           : v1::LOG_STREAM_STDERR);
      out.set_text(std::move(line.text));
      out.set_partial(line.partial);
    }
    if (last) {
      StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
    } else {
      StartWrite(&response_);
    }
  }

  void End(const Result<void>& result) override {
    Finish(result ? grpc::Status::OK : ToStatus(result.error()));
  }

 private:
  const std::shared_ptr<LogFollower> follower_;
  v1::LogsResponse response_;
};

}  // namespace

grpc::ServerWriteReactor<v1::LogsResponse>* NodeAgentService::Logs(
    grpc::CallbackServerContext* context, const v1::LogsRequest* request) {
  if (const auto refusal = Refusal(*context, Method::kLogs)) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::LogsResponse>>(*refusal);
  }
  return (new LogReadStream(core_, *request))->Start();
}

}  // namespace holdfast::agent::api
