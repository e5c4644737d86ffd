// SPDX-License-Identifier: Apache-2.0
// Exec: one program in a container, as a bidirectional stream. The session (agent/stream) moves the
// bytes on a thread of ServerCore::exec_sessions; gRPC's threads only hand over messages.
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "agent/api/grpc/service.h"
#include "agent/api/grpc/status_map.h"
#include "agent/stream/program_session.h"
#include "agent/view/find_container.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent::api {
namespace {

const grpc::Status kGone = grpc::Status::CANCELLED;

class ExecStream final : public grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecResponse>,
                         public ProgramPeer,
                         public std::enable_shared_from_this<ExecStream> {
 public:
  ExecStream(ServerCore& core, std::string peer, std::unique_ptr<ProgramSession> session)
      : core_(core), peer_(std::move(peer)), session_(std::move(session)) {}

  static ExecStream* Start(std::shared_ptr<ExecStream> stream) {
    stream->self_ = stream;
    stream->StartRead(&stream->request_);
    return stream.get();
  }

  void OnReadDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!started_) return Begin(ok);
    if (!ok) return session_->CloseInput();  // the caller will send no more
    if (Take()) StartRead(&request_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) session_->Cancel();
    session_->OutputTaken();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    if (!started_) return EndLocked(kGone);
    session_->Cancel();
  }

  void OnDone() override { self_.reset(); }

  // ---- ProgramPeer, on the session's thread --------------------------------------------------

  bool Write(std::string data, bool is_stderr) override {
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    response_.Clear();
    if (is_stderr) {
      response_.set_stderr(std::move(data));
    } else {
      response_.set_stdout(std::move(data));
    }
    StartWrite(&response_);
    return true;
  }

  void ReadOn() override {
    const std::lock_guard lock(mutex_);
    if (!ended_) StartRead(&request_);
  }

  void Detached() override { End(grpc::Status::OK); }

 private:
  // ---- on gRPC's threads, mutex_ held --------------------------------------------------------

  void Begin(bool ok) {
    if (!ok || request_.payload_case() != v1::ExecRequest::kStart) {
      return EndLocked({grpc::StatusCode::INVALID_ARGUMENT, "the first message must be start"});
    }
    start_ = std::move(*request_.mutable_start());
    started_ = true;
    auto posted = core_.exec_sessions.TryPost([self = shared_from_this()] { self->Run(); });
    if (!posted) return EndLocked(ToStatus(posted.error()));
    StartRead(&request_);
  }

  // False: no more is to be read until ReadOn().
  bool Take() {
    switch (request_.payload_case()) {
      case v1::ExecRequest::kStdin:
        return !start_.stdin() || session_->Input(request_.stdin());
      case v1::ExecRequest::kStdinClosed:
        session_->CloseInput();
        break;
      case v1::ExecRequest::kResize:
        session_->Resize(static_cast<uint16_t>(request_.resize().rows()),
                         static_cast<uint16_t>(request_.resize().columns()));
        break;
      case v1::ExecRequest::kSignal:
        session_->Signal(static_cast<int>(request_.signal()));
        break;
      case v1::ExecRequest::kDetach:
        session_->Detach();
        break;
      default:
        break;  // a second start, or nothing: no meaning
    }
    return true;
  }

  void EndLocked(const grpc::Status& status) {
    if (ended_) return;
    ended_ = true;
    Finish(status);
  }

  // ---- on the session's thread ---------------------------------------------------------------

  void End(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    EndLocked(status);
  }

  void Run() {
    if (const auto done = RunSession(); !done) End(ToStatus(done.error()));
  }

  Result<void> RunSession() {
    ASSIGN_OR_RETURN(const PodPtr pod,
                     FindPod(core_.node.pods(), start_.namespace_(), start_.pod()));
    ASSIGN_OR_RETURN(const std::string container, ChooseContainer(*pod, start_.container()));
    if (start_.argv().empty()) return InvalidArgument("argv: at least the program is required");
    access::AuditScope audit = BeginAudit(
        core_, peer_, Method::kExec, StrCat(start_.namespace_(), "/", start_.pod(), "/", container),
        pod->metadata().uid(), start_.argv(0));
    const auto result = RunAudited(*pod, container);
    audit.Finish(StatusName(result ? grpc::StatusCode::OK : StatusCodeOf(result.error().code())));
    return result;
  }

  Result<void> RunAudited(const k8s::io::api::core::v1::Pod& pod, const std::string& container) {
    ASSIGN_OR_RETURN(const ContainerId id, RunningContainer(pod, container));
    ExecSpec spec;
    spec.argv.assign(start_.argv().begin(), start_.argv().end());
    spec.stdin_open = start_.stdin();
    spec.tty = start_.tty();
    if (start_.rows() != 0) spec.rows = static_cast<uint16_t>(start_.rows());
    if (start_.columns() != 0) spec.columns = static_cast<uint16_t>(start_.columns());
    HOLDFAST_PAUSE_POINT("api.exec.before_start");
    // Its destructor kills the program if it still runs.
    ASSIGN_OR_RETURN(const std::unique_ptr<ExecSession> program, core_.node.Exec(id, spec));
    ASSIGN_OR_RETURN(const ProgramSession::Outcome outcome, session_->Run(*program, spec, *this));
    Conclude(outcome);
    return {};
  }

  void Conclude(const ProgramSession::Outcome& outcome) {
    switch (outcome.end) {
      case ProgramSession::End::kStopping:
        return End({grpc::StatusCode::UNAVAILABLE, "the agent is stopping"});
      case ProgramSession::End::kCancelled:
        return End(kGone);
      case ProgramSession::End::kExited:
        return SendExit(outcome.exit);
    }
  }

  void SendExit(const model::ExitReport& report) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    response_.Clear();
    response_.mutable_exit()->set_code(report.exit_code);
    response_.mutable_exit()->set_signal(report.signal);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

  ServerCore& core_;
  const std::string peer_;
  const std::unique_ptr<ProgramSession> session_;
  std::shared_ptr<ExecStream> self_;
  v1::ExecRequest request_;
  v1::ExecResponse response_;
  v1::ExecRequest::Start start_;

  std::mutex mutex_;  // guards all below; taken before the session's, never within
  bool started_ = false;
  bool ended_ = false;
};

}  // namespace

grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecResponse>* NodeAgentService::Exec(
    grpc::CallbackServerContext* context) {
  using Base = grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecResponse>;
  if (const auto refusal = Refusal(*context, Method::kExec)) {
    return new RefusedStream<Base>(*refusal);
  }
  auto session = ProgramSession::Make(core_.stopping);
  if (!session) return new RefusedStream<Base>(ToStatus(session.error()));
  return ExecStream::Start(
      std::make_shared<ExecStream>(core_, context->peer(), std::move(*session)));
}

}  // namespace holdfast::agent::api
