// SPDX-License-Identifier: Apache-2.0
// A check that runs a program in a container. The runtime's calls (start, exit code, kill) are made
// on the starters' threads; what the program says and its end are waited for on the runner's.
// Source: Kubernetes' probe/exec/exec.go; pidfd_open(2).
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>

#include "agent/probe/running_check_internal.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/readable.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;
using boost::system::error_code;

class ExecChecking : public CheckBase {
 public:
  ExecChecking(asio::io_context& io, ContainerRuntime& runtime, WorkerPool& starters,
               ExecCheck check)
      : CheckBase(io),
        runtime_(runtime),
        starters_(starters),
        check_(std::move(check)),
        out_(io),
        err_(io),
        process_(io) {}

 private:
  std::shared_ptr<ExecChecking> Self() {
    return std::static_pointer_cast<ExecChecking>(shared_from_this());
  }

  void Go() override {
    starters_.Post([self = Self()] {
      auto started = self->runtime_.Exec(self->check_.container, {.argv = self->check_.argv});
      asio::post(self->io_, [self, started = std::move(started)]() mutable {
        self->OnStarted(std::move(started));
      });
    });
  }

  void OnStarted(Result<std::unique_ptr<ExecSession>> started) {
    if (!started) return End({CheckOutcome::How::kError, started.error().message()});
    session_ = std::move(*started);
    if (ended()) return Close();  // its time was over before it began
    if (!Watch(session_->stdout_fd(), out_) || !Watch(session_->stderr_fd(), err_) ||
        !Watch(session_->ended_fd(), process_)) {
      return End({CheckOutcome::How::kError, "no descriptor to wait for the program with"});
    }
    Read(out_);
    Read(err_);
    WaitForProgram();
  }

  void WaitForProgram() {
    process_.async_wait(stream_descriptor::wait_read, [self = Self()](const error_code& cancelled) {
      if (cancelled || self->ended()) return;
      // The event may have been another descriptor's (descriptor_session.cc).
      if (!sys::IsReadable(self->process_.native_handle())) return self->WaitForProgram();
      self->OnExited();
    });
  }

  // A copy: the session keeps its own.
  static bool Watch(int fd, stream_descriptor& watched) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return false;
    error_code error;
    (void)watched.assign(copy, error);
    if (error) ::close(copy);
    if (!error) (void)watched.non_blocking(true, error);
    return !error;
  }

  // More than is kept is read and thrown away: the program is not held up.
  void Keep(const char* data, size_t n) {
    output_.append(data, std::min(n, kCheckOutput - output_.size()));
  }

  void Read(stream_descriptor& from) {
    from.async_wait(stream_descriptor::wait_read,
                    [self = Self(), &from](const error_code& cancelled) {
                      if (!cancelled && !self->ended() && self->ReadSome(from)) self->Read(from);
                    });
  }

  // One piece; false at the end.
  bool ReadSome(stream_descriptor& from) {
    std::array<char, 4096> piece;
    error_code error;
    const size_t n = from.read_some(asio::buffer(piece), error);
    Keep(piece.data(), n);
    return !error || error == asio::error::would_block;
  }

  // What is in the pipe now; a child that it left behind may keep it open, and writing, for ever.
  void Drain(stream_descriptor& from) {
    size_t pieces = 16;
    error_code error;
    while (pieces-- > 0 && !error) {
      std::array<char, 4096> piece;
      const size_t n = from.read_some(asio::buffer(piece), error);
      if (!error) Keep(piece.data(), n);
    }
  }

  void OnExited() {
    Drain(out_);
    Drain(err_);
    starters_.Post([self = Self(), session = session_]() mutable {
      auto report = session->Wait();
      session.reset();
      asio::post(self->io_, [self, report = std::move(report)] { self->OnReport(report); });
    });
  }

  void OnReport(const Result<model::ExitReport>& report) {
    if (!report) return End({CheckOutcome::How::kError, report.error().message()});
    if (report->source == model::ExitReport::Source::kLost) {
      return End({.how = CheckOutcome::How::kError,
                  .text = "the program's exit code was lost",
                  .end_lost = true});
    }
    if (report->exit_code == 0) return End({CheckOutcome::How::kSuccess, output_});
    End({.how = CheckOutcome::How::kFailure, .text = output_, .exit_code = report->exit_code});
  }

  // Whoever lets go of the session last kills what still runs, which may take the runtime a moment.
  void Close() override {
    error_code ignored;
    for (stream_descriptor* one : {&out_, &err_, &process_}) (void)one->close(ignored);
    if (session_) starters_.Post([session = std::exchange(session_, nullptr)] {});
  }

  CheckOutcome OnLimit() override {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*limit_).count();
    return {CheckOutcome::How::kFailure, StrCat("command timed out: \"", Join(check_.argv, " "),
                                                "\" timed out after ", seconds, "s")};
  }

  ContainerRuntime& runtime_;
  WorkerPool& starters_;
  const ExecCheck check_;
  std::shared_ptr<ExecSession> session_;
  stream_descriptor out_;
  stream_descriptor err_;
  stream_descriptor process_;
  std::string output_;
};

}  // namespace

std::shared_ptr<CheckBase> MakeExecCheck(asio::io_context& io, ContainerRuntime& runtime,
                                         WorkerPool& starters, ExecCheck check) {
  return std::make_shared<ExecChecking>(io, runtime, starters, std::move(check));
}

}  // namespace holdfast::agent
