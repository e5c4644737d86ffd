// SPDX-License-Identifier: Apache-2.0
// DescriptorSession: a StreamSession over descriptors (pipes, a terminal, a socket), waited for by an
// executor. It can be fed before it is open: what comes early waits. Thread rule: as session.h;
// what blocks (opening, a program's exit code, its end) runs where `blocking` puts it.
#pragma once

#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/stream/session.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/interfaces/container_runtime.h"

namespace holdfast::agent {

// What a session is connected to.
struct SessionEnds {
  UniqueFd input;         // invalid: nobody reads
  UniqueFd output;        // invalid: none
  UniqueFd error_output;  // invalid: none, as with a terminal
  bool terminal = false;  // `input` is a terminal's master
  bool socket = false;    // `input` is a socket, whose one direction can be shut
  // A program, with whose end the session ends; null: it ends with its outputs.
  std::unique_ptr<ExecSession> program;
  // Input has ended, or the peer has gone. May block; may be null.
  std::function<void()> input_ended;
  // Let go of last, at the session's end, where what blocks runs. May be null.
  std::shared_ptr<void> kept;
};

// The descriptors of a program, copied; what the peer does not want is not among them.
Result<SessionEnds> EndsOfProgram(std::unique_ptr<ExecSession> program, const ExecSpec& spec);

class DescriptorSession final : public StreamSession,
                                public std::enable_shared_from_this<DescriptorSession> {
 public:
  using Executor = boost::asio::any_io_executor;
  using Blocking = std::function<void(std::function<void()>)>;  // runs a job on another thread
  using Opener = std::function<Result<SessionEnds>()>;

  // `peer` is borrowed until Finish() or Close().
  static std::shared_ptr<DescriptorSession> Make(Executor executor, Blocking blocking,
                                                 StreamPeer& peer);
  ~DescriptorSession() override;

  // Once: `opener` runs where blocking jobs do; its failure is the session's end.
  void Open(Opener opener);

  bool Feed(std::string_view bytes) override;
  void EndInput() override;
  void Resize(TerminalSize size) override;
  void Taken(StreamOutput output) override;
  void Close() override;
  // To the program; nothing without one, or after its end.
  void Signal(int signal);

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;
  struct Output {
    StreamOutput name;
    std::unique_ptr<Descriptor> from;  // null once at its end
    bool under_way = false;
  };

  DescriptorSession(Executor executor, Blocking blocking, StreamPeer& peer);
  void Begin(Result<SessionEnds> ends);
  Result<void> Adopt(SessionEnds& ends);
  void Fail(Error error);
  std::unique_ptr<Descriptor> Watchable(UniqueFd fd);

  void WaitForOutput(Output& output);
  void Pump(Output& output);
  void EndOutput(Output& output);

  void WriteInput();
  void InputFailed();
  void CloseInput();
  void TellInputEnded();

  void WaitForProgram();
  void ProgramEnded();
  void Drain();
  void FinishIfDone();
  void Release();

  const Executor executor_;
  const Blocking blocking_;
  StreamPeer* peer_;  // null once closed or finished

  bool open_ = false;
  bool terminal_ = false;
  bool socket_ = false;
  std::unique_ptr<ExecSession> program_;
  std::function<void()> input_ended_;
  std::shared_ptr<void> kept_;
  std::unique_ptr<Descriptor> process_;
  std::array<Output, 2> outputs_{
      {{StreamOutput::kStdout, nullptr}, {StreamOutput::kStderr, nullptr}}};
  boost::asio::steady_timer drain_;
  bool exited_ = false;
  bool draining_ = false;  // a terminal's last output may still be on its way
  std::optional<Result<model::ExitReport>> report_;

  std::unique_ptr<Descriptor> input_;
  std::string waiting_;  // input
  size_t written_ = 0;   // of waiting_
  bool input_waits_ = false;
  bool input_paused_ = false;
  bool input_closing_ = false;
  bool input_dropped_ = false;        // nobody reads it: thrown away
  std::optional<TerminalSize> size_;  // that came before there was a terminal
  std::optional<int> signal_;         // that came before there was a program
};

}  // namespace holdfast::agent
