// SPDX-License-Identifier: Apache-2.0
// FakeExecRuntime: a ContainerRuntime whose exec runs the program right here, without a container,
// with real pipes or a real pseudo-terminal. Everything else is refused. Thread-safe.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/interfaces/container_runtime.h"

namespace holdfast {

class FakeExecSession : public ExecSession {
 public:
  // The child calls only async-signal-safe functions until exec.
  FakeExecSession(const ExecSpec& spec, bool exit_lost) : exit_lost_(exit_lost) {
    std::vector<char*> argv;
    for (const std::string& word : spec.argv) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    int err[2] = {-1, -1};
    if (spec.tty) {
      winsize size{.ws_row = spec.rows, .ws_col = spec.columns, .ws_xpixel = 0, .ws_ypixel = 0};
      if (::openpty(&out[0], &out[1], nullptr, nullptr, &size) != 0) return;
      (void)::fcntl(out[0], F_SETFD, FD_CLOEXEC);
      (void)::fcntl(out[1], F_SETFD, FD_CLOEXEC);
    } else if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 ||
               ::pipe2(err, O_CLOEXEC) != 0) {
      return;
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      (void)::setsid();
      sigset_t none;
      ::sigemptyset(&none);
      (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
      if (spec.tty) {
        (void)::ioctl(out[1], TIOCSCTTY, 0);
        for (int fd = 0; fd < 3; ++fd) (void)::dup2(out[1], fd);
      } else {
        (void)::dup2(in[0], 0);
        (void)::dup2(out[1], 1);
        (void)::dup2(err[1], 2);
      }
      // A client's connection that another thread has just made would end with this program only.
      (void)::close_range(3, ~0u, 0);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    pidfd_.Reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    tty_ = spec.tty;
    ::close(out[1]);
    out_.Reset(out[0]);
    if (spec.tty) return;
    ::close(in[0]);
    ::close(err[1]);
    in_.Reset(in[1]);
    err_.Reset(err[0]);
    if (!spec.stdin_open) in_.Reset();
  }

  ~FakeExecSession() override {
    if (pid_ <= 0 || reaped_) return;
    (void)::kill(pid_, SIGKILL);
    (void)::waitpid(pid_, nullptr, 0);
  }

  int stdin_fd() const override { return tty_ ? out_.get() : in_.get(); }
  int stdout_fd() const override { return out_.get(); }
  int stderr_fd() const override { return err_.get(); }
  void CloseStdin() override { in_.Reset(); }
  Result<void> Resize(uint16_t rows, uint16_t columns) override {
    const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    if (::ioctl(out_.get(), TIOCSWINSZ, &size) != 0) return Error::FromErrno(errno, "TIOCSWINSZ");
    return {};
  }
  Result<void> Signal(int signal) override {
    if (::kill(pid_, signal) != 0) return Error::FromErrno(errno, "kill");
    return {};
  }
  int ended_fd() const override { return pidfd_.get(); }
  Result<model::ExitReport> Wait() override {
    int status = 0;
    if (::waitpid(pid_, &status, 0) != pid_) return Error::FromErrno(errno, "waitpid");
    reaped_ = true;
    model::ExitReport report;
    if (exit_lost_) {
      report.source = model::ExitReport::Source::kLost;
      report.exit_code = 137;
      return report;
    }
    report.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    report.exit_code = report.signal != 0 ? 128 + report.signal : WEXITSTATUS(status);
    return report;
  }
  pid_t pid() const { return pid_; }

 private:
  const bool exit_lost_;
  pid_t pid_ = -1;
  bool tty_ = false;
  bool reaped_ = false;
  UniqueFd in_;
  UniqueFd out_;
  UniqueFd err_;
  PidFd pidfd_;
};

class FakeExecRuntime : public ContainerRuntime {
 public:
  Result<std::unique_ptr<ExecSession>> Exec(const ContainerId& id, const ExecSpec& spec) override {
    if (id != container) return NotFound("container " + id.value);
    const bool exit_lost = exits_to_lose > 0 && exits_to_lose-- > 0;
    auto session = std::make_unique<FakeExecSession>(spec, exit_lost);
    return std::unique_ptr<ExecSession>(std::move(session));
  }

  // Through whatever the test sets.
  Result<AttachedStreams> Attach(const ContainerId& id, const AttachSpec& spec) override {
    if (id != container || !attach) return NotFound("container " + id.value);
    return attach(spec);
  }
  Result<void> CloseStdin(const ContainerId&) override {
    ++stdin_closed;
    return {};
  }
  std::function<Result<AttachedStreams>(const AttachSpec&)> attach;
  std::atomic<int> stdin_closed{0};
  std::atomic<int> exits_to_lose{0};  // how the next ones end nobody can tell

  Result<void> EnsureSandbox(const model::SandboxSpec&) override { return Refused(); }
  Result<void> Resize(const PodUid&, const model::ResourceSpec&,
                      const std::vector<ResizedContainer>&) override {
    return Refused();
  }
  Result<NsFd> NetworkNamespace(const PodUid&) override { return Refused(); }
  Result<void> RemoveSandbox(const PodUid&) override { return Refused(); }
  std::expected<StartedContainer, StartFailure> Start(const model::ContainerSpec&) override {
    return std::unexpected(StartFailure{StartFailure::Phase::kCreate, Refused()});
  }
  Result<void> Signal(const ContainerId&, int) override { return Refused(); }
  Result<void> Kill(const ContainerId&) override { return Refused(); }
  Result<void> Remove(const ContainerId&) override { return Refused(); }
  Result<std::vector<ObservedContainer>> ListContainers() override { return Refused(); }
  Result<std::vector<ObservedSandbox>> ListSandboxes() override { return Refused(); }
  ObservedPod Observe(const PodUid&) override { return {}; }
  void SetChangeHint(std::function<void(const PodUid&)>) override {}
  Result<void> HoldDevice(const PodUid&, const std::string&, int) override { return Refused(); }
  Result<model::BlockDevice> HeldDevice(const PodUid&, const std::string&) override {
    return Refused();
  }
  Result<void> LetGoOfDevice(const PodUid&, const std::string&) override { return Refused(); }
  void KeepReady(size_t) override {}
  Result<std::vector<Leftover>> Audit(const std::vector<PodUid>&, bool) override {
    return Refused();
  }

  ContainerId container{"c0ffee"};  // the only one there is

 private:
  static Error Refused() { return Unsupported("this runtime only execs"); }
};

}  // namespace holdfast
