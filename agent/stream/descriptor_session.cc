// SPDX-License-Identifier: Apache-2.0
#include "agent/stream/descriptor_session.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>

#include "holdfast/sys/readable.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;

// With what a transport puts before it (SPDY 8 bytes, a WebSocket's channel 5), two whole records of
// TLS: a few bytes more would be a third one, sent and decrypted for themselves.
constexpr size_t kPiece = 2 * 16 * 1024 - 32;
// The kernel moves a pseudo-terminal's last output from one side to the other after the program's
// end; it is through when the master says EIO, at the latest after this.
constexpr std::chrono::milliseconds kTerminalDrain{250};

Result<void> MakeNonBlocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return Error::FromErrno(errno, "fcntl O_NONBLOCK");
  }
  return {};
}

Result<UniqueFd> Copy(int fd) {
  if (fd < 0) return UniqueFd();
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return Error::FromErrno(errno, "dup a program's descriptor");
  return copy;
}

bool TryAgain(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

Result<SessionEnds> EndsOfProgram(std::unique_ptr<ExecSession> program, const ExecSpec& spec) {
  SessionEnds ends;
  ends.terminal = spec.tty;
  ASSIGN_OR_RETURN(ends.output, Copy(program->stdout_fd()));
  ASSIGN_OR_RETURN(ends.error_output, Copy(program->stderr_fd()));
  // A terminal's master also tells its size, so it is there whether or not somebody types.
  if (spec.stdin_open || spec.tty) {
    ASSIGN_OR_RETURN(ends.input, Copy(program->stdin_fd()));
  }
  ends.program = std::move(program);
  return ends;
}

std::shared_ptr<DescriptorSession> DescriptorSession::Make(Executor executor, Blocking blocking,
                                                           StreamPeer& peer) {
  return std::shared_ptr<DescriptorSession>(
      new DescriptorSession(std::move(executor), std::move(blocking), peer));
}

DescriptorSession::DescriptorSession(Executor executor, Blocking blocking, StreamPeer& peer)
    : executor_(std::move(executor)),
      blocking_(std::move(blocking)),
      peer_(&peer),
      drain_(executor_) {}

DescriptorSession::~DescriptorSession() = default;

// ---- begin -----------------------------------------------------------------------------------

void DescriptorSession::Open(Opener opener) {
  blocking_([self = shared_from_this(), opener = std::move(opener)]() mutable {
    auto ends = std::make_shared<Result<SessionEnds>>(opener());
    opener = nullptr;
    auto& executor = self->executor_;
    asio::post(executor, [self = std::move(self), ends] { self->Begin(std::move(*ends)); });
  });
}

void DescriptorSession::Begin(Result<SessionEnds> ends) {
  if (!ends) return Fail(std::move(ends.error()));
  const auto adopted = Adopt(*ends);
  if (peer_ == nullptr) return Release();
  if (!adopted) return Fail(adopted.error());
  open_ = true;
  if (size_) Resize(*size_);
  if (signal_) Signal(*signal_);
  if (program_) WaitForProgram();
  for (Output& output : outputs_) WaitForOutput(output);
  WriteInput();
  FinishIfDone();
}

Result<void> DescriptorSession::Adopt(SessionEnds& ends) {
  terminal_ = ends.terminal;
  socket_ = ends.socket;
  program_ = std::move(ends.program);
  input_ended_ = std::move(ends.input_ended);
  kept_ = std::move(ends.kept);
  for (const UniqueFd* fd : {&ends.input, &ends.output, &ends.error_output}) {
    if (fd->valid()) RETURN_IF_ERROR(MakeNonBlocking(fd->get()));
  }
  if (program_) {
    ASSIGN_OR_RETURN(UniqueFd process, Copy(program_->ended_fd()));
    process_ = Watchable(std::move(process));
  }
  input_ = Watchable(std::move(ends.input));
  outputs_[0].from = Watchable(std::move(ends.output));
  outputs_[1].from = Watchable(std::move(ends.error_output));
  input_dropped_ = input_ == nullptr;
  return {};
}

std::unique_ptr<DescriptorSession::Descriptor> DescriptorSession::Watchable(UniqueFd fd) {
  if (!fd.valid()) return nullptr;
  auto made = std::make_unique<Descriptor>(executor_);
  boost::system::error_code error;
  made->assign(fd.get(), error);
  if (error) return nullptr;  // no memory for another in epoll's set: as if it had ended
  (void)fd.Release();         // it is `made`'s
  return made;
}

void DescriptorSession::Fail(Error error) {
  StreamPeer* peer = std::exchange(peer_, nullptr);
  Release();
  if (peer != nullptr) peer->Finish({std::nullopt, std::move(error)});
}

// ---- output ----------------------------------------------------------------------------------

void DescriptorSession::WaitForOutput(Output& output) {
  if (!output.from) return;
  output.from->async_wait(Descriptor::wait_read,
                          [self = shared_from_this(), &output](const auto& error) {
                            if (!error) self->Pump(output);
                          });
}

void DescriptorSession::Pump(Output& output) {
  if (peer_ == nullptr || !output.from || output.under_way) return;
  std::string bytes(kPiece, '\0');
  const ssize_t count = ::read(output.from->native_handle(), bytes.data(), bytes.size());
  if (count > 0) {
    bytes.resize(static_cast<size_t>(count));
    output.under_way = true;
    return peer_->Write(output.name, std::move(bytes));
  }
  // EIO: the terminal's last user is gone. After the program's end its pipes hold all it ever wrote,
  // whoever else has them open.
  const bool more_may_come = count < 0 && TryAgain(errno) && (!exited_ || draining_);
  if (more_may_come) return WaitForOutput(output);
  EndOutput(output);
}

void DescriptorSession::Taken(StreamOutput name) {
  Output& output = outputs_[static_cast<size_t>(name)];
  output.under_way = false;
  if (peer_ == nullptr) return;
  // Not from within: the peer may be called back while it still writes.
  asio::post(executor_, [self = shared_from_this(), &output] {
    self->Pump(output);
    self->FinishIfDone();
  });
}

void DescriptorSession::EndOutput(Output& output) {
  output.from.reset();
  FinishIfDone();
}

// ---- input -----------------------------------------------------------------------------------

bool DescriptorSession::Feed(std::string_view bytes) {
  if (peer_ == nullptr || input_dropped_ || input_closing_) return true;
  waiting_.append(bytes);
  WriteInput();
  input_paused_ = waiting_.size() - written_ >= kMaxInput;
  return !input_paused_;
}

void DescriptorSession::EndInput() {
  if (peer_ == nullptr || input_closing_) return;
  input_closing_ = true;
  WriteInput();
}

void DescriptorSession::WriteInput() {
  if (!open_ || input_waits_ || !input_) return;
  while (written_ < waiting_.size()) {
    const char* from = waiting_.data() + written_;
    const size_t size = waiting_.size() - written_;
    const int fd = input_->native_handle();
    const ssize_t count = socket_ ? ::send(fd, from, size, MSG_NOSIGNAL) : ::write(fd, from, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) return InputFailed();
    written_ += static_cast<size_t>(count);
  }
  const bool all = written_ == waiting_.size();
  if (all || written_ >= kMaxInput) waiting_.erase(0, std::exchange(written_, 0));
  if (all && waiting_.capacity() > kPiece) waiting_ = {};
  if (input_paused_ && waiting_.size() - written_ < kMaxInput) {
    input_paused_ = false;
    asio::post(executor_, [self = shared_from_this()] {
      if (self->peer_ != nullptr) self->peer_->ReadOn();
    });
  }
  if (all) return input_closing_ ? CloseInput() : void();
  input_waits_ = true;
  input_->async_wait(Descriptor::wait_write, [self = shared_from_this()](const auto& error) {
    self->input_waits_ = false;
    if (!error && self->peer_ != nullptr) self->WriteInput();
  });
}

// Nobody reads it any more (EPIPE, ECONNRESET): what else comes is thrown away.
void DescriptorSession::InputFailed() {
  waiting_ = {};
  written_ = 0;
  input_dropped_ = true;
  if (std::exchange(input_paused_, false)) {
    asio::post(executor_, [self = shared_from_this()] {
      if (self->peer_ != nullptr) self->peer_->ReadOn();
    });
  }
}

void DescriptorSession::CloseInput() {
  if (terminal_) return;  // whoever typed has gone; the terminal stays
  input_dropped_ = true;
  if (socket_) {
    (void)::shutdown(input_->native_handle(), SHUT_WR);  // ENOTCONN: the other side was faster
    return;
  }
  input_.reset();
  if (program_) program_->CloseStdin();
  TellInputEnded();
}

void DescriptorSession::TellInputEnded() {
  if (auto ended = std::exchange(input_ended_, nullptr)) blocking_(std::move(ended));
}

void DescriptorSession::Resize(TerminalSize size) {
  if (size.rows == 0 || size.columns == 0) return;  // kubectl's first may be 0x0
  size_ = size;
  if (!open_ || !terminal_ || !input_) return;
  const winsize window{size.rows, size.columns, 0, 0};
  (void)::ioctl(input_->native_handle(), TIOCSWINSZ, &window);  // too late for one that has ended
}

void DescriptorSession::Signal(int signal) {
  if (!open_) signal_ = signal;
  if (open_ && program_) (void)program_->Signal(signal);  // it may have ended just now
}

// ---- end -------------------------------------------------------------------------------------

void DescriptorSession::WaitForProgram() {
  if (!process_) return ProgramEnded();
  process_->async_wait(Descriptor::wait_read, [self = shared_from_this()](const auto& error) {
    if (error || self->peer_ == nullptr) return;
    // asio may wake us with an event that was on its way to a descriptor which was closed in the same turn, and whose place
    // this one has got.
    if (!sys::IsReadable(self->process_->native_handle())) return self->WaitForProgram();
    self->ProgramEnded();
  });
}

// The keeper writes the exit code down a moment later, so asking may wait.
void DescriptorSession::ProgramEnded() {
  exited_ = true;
  std::shared_ptr<ExecSession> program = std::move(program_);
  blocking_([self = shared_from_this(), program = std::move(program)]() mutable {
    auto report = program->Wait();
    program.reset();
    auto& executor = self->executor_;
    asio::post(executor, [self = std::move(self), report = std::move(report)]() mutable {
      self->report_ = std::move(report);
      self->FinishIfDone();
    });
  });
  if (!terminal_) return Drain();
  draining_ = true;
  drain_.expires_after(kTerminalDrain);
  drain_.async_wait([self = shared_from_this()](const auto& error) {
    if (error) return;
    self->draining_ = false;
    self->Drain();
  });
}

void DescriptorSession::Drain() {
  for (Output& output : outputs_) Pump(output);
  FinishIfDone();
}

void DescriptorSession::FinishIfDone() {
  if (peer_ == nullptr || !open_) return;
  for (const Output& output : outputs_) {
    if (output.from || output.under_way) return;
  }
  const bool runs = program_ || (exited_ && !report_);
  if (runs) return;
  StreamEnd end;
  if (report_ && *report_) end.exit = **report_;
  if (report_ && !*report_) end.error = report_->error();
  StreamPeer* peer = std::exchange(peer_, nullptr);
  Release();
  peer->Finish(end);
}

void DescriptorSession::Close() {
  if (std::exchange(peer_, nullptr) != nullptr) Release();
}

// Whatever waits for a descriptor is told that it is gone, and lets go of this.
void DescriptorSession::Release() {
  drain_.cancel();
  process_.reset();
  input_.reset();
  for (Output& output : outputs_) output.from.reset();
  waiting_ = {};
  written_ = 0;
  TellInputEnded();
  if (!program_ && !kept_) return;
  // A program's end is a kill and calls to the keeper.
  std::shared_ptr<ExecSession> program = std::move(program_);
  blocking_([program = std::move(program), kept = std::move(kept_)]() mutable {
    program.reset();
    kept.reset();
  });
}

}  // namespace holdfast::agent
