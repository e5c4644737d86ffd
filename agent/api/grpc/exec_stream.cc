// SPDX-License-Identifier: Apache-2.0
// Exec: one program in a container, its descriptors on one side, a bidirectional stream on the
// other. Each session has a thread of ServerCore::exec_sessions, which polls; gRPC's threads only
// hand over messages. At most one output message is under way and at most kMaxStdinBytes of input
// wait, so neither a slow caller nor a program that does not read makes the agent grow.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "agent/api/grpc/service.h"
#include "agent/api/grpc/status_map.h"
#include "agent/view/find_container.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent::api {
namespace {

constexpr size_t kOutputChunk = 32 * 1024;
constexpr size_t kMaxStdinBytes = 256 * 1024;
// The kernel moves a pseudo-terminal's last output from one side to the other after the program's
// end; it is through when the master says EIO, at the latest after this.
constexpr std::chrono::milliseconds kTerminalDrain{250};

const grpc::Status kGone = grpc::Status::CANCELLED;

Result<void> MakeNonBlocking(int fd) {
  if (fd < 0) return {};
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return Error::FromErrno(errno, "fcntl O_NONBLOCK");
  }
  return {};
}

class ExecStream final : public grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecResponse>,
                         public std::enable_shared_from_this<ExecStream> {
 public:
  ExecStream(ServerCore& core, std::string peer, sys::Wakeup wake)
      : core_(core), peer_(std::move(peer)), wake_(std::move(wake)) {}

  static ExecStream* Start(std::shared_ptr<ExecStream> stream) {
    stream->self_ = stream;
    stream->StartRead(&stream->request_);
    return stream.get();
  }

  void OnReadDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!started_) return Begin(ok);
    if (!ok) {
      stdin_closing_ = true;  // the caller will send no more
    } else {
      Take();
      if (stdin_.size() < kMaxStdinBytes) {
        StartRead(&request_);
      } else {
        read_paused_ = true;
      }
    }
    Wake();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) cancelled_ = true;
    Wake();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (!started_) return End(kGone);
    Wake();
  }

  void OnDone() override { self_.reset(); }

 private:
  // ---- on gRPC's threads, mutex_ held --------------------------------------------------------

  void Begin(bool ok) {
    if (!ok || request_.payload_case() != v1::ExecRequest::kStart) {
      return End({grpc::StatusCode::INVALID_ARGUMENT, "the first message must be start"});
    }
    start_ = std::move(*request_.mutable_start());
    started_ = true;
    auto posted = core_.exec_sessions.TryPost([self = shared_from_this()] { self->Run(); });
    if (!posted) return End(ToStatus(posted.error()));
    StartRead(&request_);
  }

  void Take() {
    switch (request_.payload_case()) {
      case v1::ExecRequest::kStdin:
        if (start_.stdin()) stdin_ += request_.stdin();
        break;
      case v1::ExecRequest::kStdinClosed:
        stdin_closing_ = true;
        break;
      case v1::ExecRequest::kResize:
        resize_ = request_.resize();
        break;
      case v1::ExecRequest::kSignal:
        signal_ = static_cast<int>(request_.signal());
        break;
      case v1::ExecRequest::kDetach:
        detached_ = true;
        break;
      default:
        break;  // a second start, or nothing: no meaning
    }
  }

  void Wake() { wake_.Set(); }

  void End(const grpc::Status& status) {
    if (ended_) return;
    ended_ = true;
    Finish(status);
  }

  // ---- on the session's thread ---------------------------------------------------------------

  void Run() {
    const auto done = RunSession();
    session_.reset();  // kills the program if it still runs
    const std::lock_guard lock(mutex_);
    if (!done) End(ToStatus(done.error()));
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
    ASSIGN_OR_RETURN(session_, core_.node.Exec(id, spec));
    out_fd_ = session_->stdout_fd();
    err_fd_ = session_->stderr_fd();
    in_fd_ = start_.stdin() ? session_->stdin_fd() : -1;
    for (const int fd : {out_fd_, err_fd_, in_fd_}) RETURN_IF_ERROR(MakeNonBlocking(fd));
    return Pump();
  }

  // Moves bytes until the program has ended and its output is drained.
  Result<void> Pump() {
    while (true) {
      RETURN_IF_ERROR(HandleRequests());
      if (Abandoned()) return {};  // the session's destructor kills the program
      if (exited_ && Drained()) return SendExit();
      PollOnce();
      if (readable_.stdin_room) RETURN_IF_ERROR(WriteStdin());
      if (readable_.exited) exited_ = true;
      if (readable_.out) ReadOutput(out_fd_, false);
      if (readable_.err && OutputFree()) ReadOutput(err_fd_, true);
    }
  }

  Result<void> HandleRequests() {
    wake_.Clear();
    std::optional<v1::ExecRequest::Resize> resize;
    std::optional<int> signal;
    {
      const std::lock_guard lock(mutex_);
      std::swap(resize, resize_);
      std::swap(signal, signal_);
      if (detached_ && !ended_) End(grpc::Status::OK);
    }
    // Both may come too late: a program that has ended needs neither.
    if (resize && start_.tty()) {
      (void)session_->Resize(static_cast<uint16_t>(resize->rows()),
                             static_cast<uint16_t>(resize->columns()));
    }
    if (signal && (*signal < 1 || *signal > SIGRTMAX)) {
      return InvalidArgument(StrCat("signal ", *signal, ": not a signal number"));
    }
    if (signal) (void)session_->Signal(*signal);
    return {};
  }

  bool Abandoned() {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      End({grpc::StatusCode::UNAVAILABLE, "the agent is stopping"});
      return true;
    }
    if (!cancelled_ || detached_) return false;
    End(kGone);
    return true;
  }

  void PollOnce() {
    enum { kWake, kStop, kPid, kOut, kErr, kIn, kCount };
    std::array<pollfd, kCount> fds{};
    for (pollfd& fd : fds) fd.fd = -1;
    const bool output_free = OutputFree();
    const bool has_stdin = HasStdin();
    fds[kWake] = {wake_.fd(), POLLIN, 0};
    fds[kStop] = {core_.stopping.fd(), POLLIN, 0};
    if (!exited_) fds[kPid] = {session_->pidfd(), POLLIN, 0};
    if (output_free && out_fd_ >= 0) fds[kOut] = {out_fd_, POLLIN, 0};
    if (output_free && err_fd_ >= 0) fds[kErr] = {err_fd_, POLLIN, 0};
    if (has_stdin && in_fd_ >= 0 && !exited_) fds[kIn] = {in_fd_, POLLOUT, 0};
    const int timeout = exited_ && output_free ? DrainTimeout() : -1;
    const int ready = ::poll(fds.data(), fds.size(), timeout);
    readable_ = {.stdin_room = fds[kIn].revents != 0,
                 .exited = fds[kPid].revents != 0,
                 .out = fds[kOut].revents != 0,
                 .err = fds[kErr].revents != 0};
    if (fds[kStop].revents != 0) stopping_ = true;
    if (ready == 0 && exited_ && output_free) out_fd_ = err_fd_ = -1;  // nothing more will come
    // What the closed end of a pipe reports as POLLERR or POLLHUP is seen by the next read or
    // write.
  }

  // Pipes hold at the program's end all it ever wrote; a terminal may need a moment.
  int DrainTimeout() const { return start_.tty() ? static_cast<int>(kTerminalDrain.count()) : 0; }

  bool Drained() const { return out_fd_ < 0 && err_fd_ < 0; }

  bool OutputFree() {
    const std::lock_guard lock(mutex_);
    return !writing_;
  }

  bool HasStdin() {
    const std::lock_guard lock(mutex_);
    if (stdin_.empty() && stdin_closing_ && !stdin_closed_) {
      stdin_closed_ = true;
      if (in_fd_ >= 0) session_->CloseStdin();
      if (!start_.tty()) in_fd_ = -1;
    }
    return !stdin_.empty();
  }

  Result<void> WriteStdin() {
    const std::lock_guard lock(mutex_);
    const ssize_t written = ::write(in_fd_, stdin_.data(), stdin_.size());
    if (written > 0) {
      stdin_.erase(0, static_cast<size_t>(written));
    } else if (written < 0 && errno != EAGAIN && errno != EINTR) {
      stdin_.clear();  // the program has closed its stdin; what it does not want is dropped
      in_fd_ = -1;
    }
    if (read_paused_ && stdin_.size() < kMaxStdinBytes && !ended_) {
      read_paused_ = false;
      StartRead(&request_);
    }
    return {};
  }

  void ReadOutput(int& fd, bool is_stderr) {
    std::string data(kOutputChunk, '\0');
    const ssize_t count = ::read(fd, data.data(), data.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {  // end of file, or EIO: the terminal's last user is gone
      fd = -1;
      return;
    }
    data.resize(static_cast<size_t>(count));
    const std::lock_guard lock(mutex_);
    if (ended_) return;  // detached: read and thrown away
    response_.Clear();
    if (is_stderr) {
      response_.set_stderr(std::move(data));
    } else {
      response_.set_stdout(std::move(data));
    }
    writing_ = true;
    StartWrite(&response_);
  }

  Result<void> SendExit() {
    ASSIGN_OR_RETURN(const model::ExitReport report, session_->Wait());
    const std::lock_guard lock(mutex_);
    if (ended_) return {};
    ended_ = true;
    response_.Clear();
    response_.mutable_exit()->set_code(report.exit_code);
    response_.mutable_exit()->set_signal(report.signal);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
    return {};
  }

  ServerCore& core_;
  const std::string peer_;
  const sys::Wakeup wake_;  // something for the session's thread
  std::shared_ptr<ExecStream> self_;
  v1::ExecRequest request_;
  v1::ExecResponse response_;
  v1::ExecRequest::Start start_;

  // The session's thread's own:
  std::unique_ptr<ExecSession> session_;
  int out_fd_ = -1;  // borrowed from session_; -1 once at its end
  int err_fd_ = -1;
  int in_fd_ = -1;
  bool exited_ = false;
  bool stopping_ = false;
  bool stdin_closed_ = false;
  struct {
    bool stdin_room = false;
    bool exited = false;
    bool out = false;
    bool err = false;
  } readable_;

  std::mutex mutex_;  // guards all below
  std::string stdin_;
  std::optional<v1::ExecRequest::Resize> resize_;
  std::optional<int> signal_;
  bool started_ = false;
  bool stdin_closing_ = false;
  bool read_paused_ = false;
  bool detached_ = false;
  bool cancelled_ = false;
  bool writing_ = false;
  bool ended_ = false;
};

}  // namespace

grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecResponse>* NodeAgentService::Exec(
    grpc::CallbackServerContext* context) {
  using Base = grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecResponse>;
  if (const auto refusal = Refusal(*context, Method::kExec)) {
    return new RefusedStream<Base>(*refusal);
  }
  auto wake = sys::Wakeup::Make();
  if (!wake) return new RefusedStream<Base>(ToStatus(wake.error()));
  return ExecStream::Start(std::make_shared<ExecStream>(core_, context->peer(), std::move(*wake)));
}

}  // namespace holdfast::agent::api
