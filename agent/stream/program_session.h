// SPDX-License-Identifier: Apache-2.0
// ProgramSession: moves bytes between a program's descriptors and a peer, whatever the peer's
// transport is. One thread runs it and polls; the peer hands over from any other. At most one piece
// of output is under way and at most kMaxInput bytes of input wait, so neither a slow peer nor a
// program that does not read makes the agent grow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent {

// Who sits at the other end. Called by the session's thread, without its lock.
class ProgramPeer {
 public:
  virtual ~ProgramPeer() = default;
  // The next piece of output. True: it is under way, and OutputTaken() says when it is through.
  // False: nobody wants it any more.
  virtual bool Write(std::string data, bool is_stderr) = 0;
  // There is room for input again.
  virtual void ReadOn() = 0;
  // The peer asked to be let go, and is; the program runs on.
  virtual void Detached() = 0;
};

class ProgramSession {
 public:
  static constexpr size_t kMaxInput = 256 * 1024;

  enum class End : uint8_t {
    kExited,     // the program ended, and all its output is with the peer
    kCancelled,  // the peer went away
    kStopping,   // the agent stops
  };
  struct Outcome {
    End end;
    model::ExitReport exit;  // of kExited
  };

  // `stopping` is borrowed: set once the agent stops.
  static Result<std::unique_ptr<ProgramSession>> Make(const sys::Wakeup& stopping);

  // From any thread. What comes before Run() waits for it.
  // False: enough waits; ReadOn() tells when there is room.
  bool Input(const std::string& data);
  void CloseInput();
  void Resize(uint16_t rows, uint16_t columns);
  void Signal(int signal);
  void Detach();
  void Cancel();
  void OutputTaken();

  // On the session's thread, once, until the end; the program is killed when it has not ended then.
  // `spec` is what the program was started with.
  Result<Outcome> Run(ExecSession& program, const ExecSpec& spec, ProgramPeer& peer);

 private:
  struct Ready {
    bool input_room = false;
    bool exited = false;
    bool out = false;
    bool err = false;
  };

  ProgramSession(const sys::Wakeup& stopping, sys::Wakeup wake)
      : stopping_(stopping), wake_(std::move(wake)) {}

  Result<void> HandleRequests();
  std::optional<End> Abandoned();
  Ready Poll();
  int DrainTimeout() const;
  bool IsDrained() const { return out_fd_ < 0 && err_fd_ < 0; }
  bool OutputFree();
  bool HasInput();
  void WriteInput();
  void ReadOutput(int& fd, bool is_stderr);

  const sys::Wakeup& stopping_;
  const sys::Wakeup wake_;  // something for the session's thread

  // The session's thread's own:
  ExecSession* program_ = nullptr;
  ProgramPeer* peer_ = nullptr;
  bool tty_ = false;
  int out_fd_ = -1;  // borrowed from program_; -1 once at its end
  int err_fd_ = -1;
  int in_fd_ = -1;
  bool exited_ = false;
  bool stop_ = false;
  bool input_closed_ = false;
  bool let_go_ = false;

  std::mutex mutex_;  // guards all below
  std::string input_;
  std::optional<std::pair<uint16_t, uint16_t>> resize_;
  std::optional<int> signal_;
  bool input_closing_ = false;
  bool input_paused_ = false;
  bool detached_ = false;
  bool cancelled_ = false;
  bool writing_ = false;
};

}  // namespace holdfast::agent
