// SPDX-License-Identifier: Apache-2.0
#include "agent/stream/program_session.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "agent/stream/descriptors.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr size_t kOutputChunk = 32 * 1024;

}  // namespace

Result<std::unique_ptr<ProgramSession>> ProgramSession::Make(const sys::Wakeup& stopping) {
  ASSIGN_OR_RETURN(sys::Wakeup wake, sys::Wakeup::Make());
  return std::unique_ptr<ProgramSession>(new ProgramSession(stopping, std::move(wake)));
}

// ---- from any thread -------------------------------------------------------------------------

bool ProgramSession::Input(const std::string& data) {
  const std::lock_guard lock(mutex_);
  input_ += data;
  input_paused_ = input_.size() >= kMaxInput;
  wake_.Set();
  return !input_paused_;
}

void ProgramSession::CloseInput() {
  const std::lock_guard lock(mutex_);
  input_closing_ = true;
  wake_.Set();
}

void ProgramSession::Resize(uint16_t rows, uint16_t columns) {
  const std::lock_guard lock(mutex_);
  resize_ = std::pair(rows, columns);
  wake_.Set();
}

void ProgramSession::Signal(int signal) {
  const std::lock_guard lock(mutex_);
  signal_ = signal;
  wake_.Set();
}

void ProgramSession::Detach() {
  const std::lock_guard lock(mutex_);
  detached_ = true;
  wake_.Set();
}

void ProgramSession::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  wake_.Set();
}

void ProgramSession::OutputTaken() {
  const std::lock_guard lock(mutex_);
  writing_ = false;
  wake_.Set();
}

// ---- on the session's thread -----------------------------------------------------------------

Result<ProgramSession::Outcome> ProgramSession::Run(ExecSession& program, const ExecSpec& spec,
                                                    ProgramPeer& peer) {
  program_ = &program;
  peer_ = &peer;
  tty_ = spec.tty;
  out_fd_ = program.stdout_fd();
  err_fd_ = program.stderr_fd();
  in_fd_ = spec.stdin_open ? program.stdin_fd() : -1;
  for (const int fd : {out_fd_, err_fd_, in_fd_}) RETURN_IF_ERROR(MakeNonBlocking(fd));
  while (true) {
    RETURN_IF_ERROR(HandleRequests());
    if (const auto end = Abandoned()) return Outcome{*end, {}};
    if (exited_ && IsDrained()) {
      ASSIGN_OR_RETURN(const model::ExitReport exit, program.Wait());
      return Outcome{End::kExited, exit};
    }
    const Ready ready = Poll();
    if (ready.input_room) WriteInput();
    if (ready.exited) exited_ = true;
    if (ready.out) ReadOutput(out_fd_, false);
    if (ready.err && OutputFree()) ReadOutput(err_fd_, true);
  }
}

Result<void> ProgramSession::HandleRequests() {
  wake_.Clear();
  std::optional<std::pair<uint16_t, uint16_t>> resize;
  std::optional<int> signal;
  bool detached = false;
  {
    const std::lock_guard lock(mutex_);
    std::swap(resize, resize_);
    std::swap(signal, signal_);
    detached = detached_;
  }
  if (detached && !std::exchange(let_go_, true)) peer_->Detached();
  // Both may come too late: a program that has ended needs neither.
  if (resize && tty_) (void)program_->Resize(resize->first, resize->second);
  if (signal && (*signal < 1 || *signal > SIGRTMAX)) {
    return InvalidArgument(StrCat("signal ", *signal, ": not a signal number"));
  }
  if (signal) (void)program_->Signal(*signal);
  return {};
}

std::optional<ProgramSession::End> ProgramSession::Abandoned() {
  if (stop_) return End::kStopping;
  const std::lock_guard lock(mutex_);
  if (cancelled_ && !detached_) return End::kCancelled;
  return std::nullopt;
}

ProgramSession::Ready ProgramSession::Poll() {
  enum { kWake, kStop, kPid, kOut, kErr, kIn, kCount };
  std::array<pollfd, kCount> fds{};
  for (pollfd& fd : fds) fd.fd = -1;
  const bool output_free = OutputFree();
  const bool has_input = HasInput();
  fds[kWake] = {wake_.fd(), POLLIN, 0};
  fds[kStop] = {stopping_.fd(), POLLIN, 0};
  if (!exited_) fds[kPid] = {program_->pidfd(), POLLIN, 0};
  if (output_free && out_fd_ >= 0) fds[kOut] = {out_fd_, POLLIN, 0};
  if (output_free && err_fd_ >= 0) fds[kErr] = {err_fd_, POLLIN, 0};
  if (has_input && in_fd_ >= 0 && !exited_) fds[kIn] = {in_fd_, POLLOUT, 0};
  const int timeout = exited_ && output_free ? DrainTimeout() : -1;
  const int count = ::poll(fds.data(), fds.size(), timeout);
  if (fds[kStop].revents != 0) stop_ = true;
  if (count == 0 && exited_ && output_free) out_fd_ = err_fd_ = -1;  // nothing more will come
  // What the closed end of a pipe reports as POLLERR or POLLHUP is seen by the next read or write.
  return {.input_room = fds[kIn].revents != 0,
          .exited = fds[kPid].revents != 0,
          .out = fds[kOut].revents != 0,
          .err = fds[kErr].revents != 0};
}

// Pipes hold at the program's end all it ever wrote; a terminal may need a moment.
int ProgramSession::DrainTimeout() const {
  return tty_ ? static_cast<int>(kTerminalDrain.count()) : 0;
}

bool ProgramSession::OutputFree() {
  const std::lock_guard lock(mutex_);
  return !writing_;
}

bool ProgramSession::HasInput() {
  const std::lock_guard lock(mutex_);
  if (input_.empty() && input_closing_ && !input_closed_) {
    input_closed_ = true;
    if (in_fd_ >= 0) program_->CloseStdin();
    if (!tty_) in_fd_ = -1;
  }
  return !input_.empty();
}

void ProgramSession::WriteInput() {
  bool room_again = false;
  {
    const std::lock_guard lock(mutex_);
    const ssize_t written = ::write(in_fd_, input_.data(), input_.size());
    if (written > 0) {
      input_.erase(0, static_cast<size_t>(written));
    } else if (written < 0 && errno != EAGAIN && errno != EINTR) {
      input_.clear();  // the program has closed its stdin; what it does not want is dropped
      in_fd_ = -1;
    }
    room_again = input_paused_ && input_.size() < kMaxInput;
    if (room_again) input_paused_ = false;
  }
  if (room_again) peer_->ReadOn();
}

void ProgramSession::ReadOutput(int& fd, bool is_stderr) {
  std::string data(kOutputChunk, '\0');
  const ssize_t count = ::read(fd, data.data(), data.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {  // end of file, or EIO: the terminal's last user is gone
    fd = -1;
    return;
  }
  data.resize(static_cast<size_t>(count));
  {
    const std::lock_guard lock(mutex_);
    writing_ = true;  // before it may be taken
  }
  if (peer_->Write(std::move(data), is_stderr)) return;
  const std::lock_guard lock(mutex_);
  writing_ = false;  // nobody listens: read and thrown away
}

}  // namespace holdfast::agent
