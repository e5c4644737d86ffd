// SPDX-License-Identifier: Apache-2.0
// Conversation: this program's stdin, stdout and terminal on one stream, of exec or of attach. Two threads: the
// main one prints what comes; the sender forwards stdin, window changes and signals, and is woken through a pipe.
#pragma once

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "agent/cli/out.h"
#include "agent/cli/terminal.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent::cli {

struct ConversationOptions {
  bool stdin_open = false;
  bool tty = false;
};

// "Unable to use a TTY …" unless stdin is a terminal; whether it is.
bool HasTerminalForTty();

// What the sender is woken with: a signal's number, or 0 for the end. One conversation at a time.
class SenderWake {
 public:
  static Result<SenderWake> Make();
  SenderWake(SenderWake&&) = default;
  ~SenderWake();
  // Wakes the sender instead of its usual effect.
  static void Catch(int signal);
  static void End();
  int fd() const { return read_.get(); }
  // Nothing: the conversation is over.
  std::optional<int> Take() const;

 private:
  SenderWake(UniqueFd read, UniqueFd write);
  UniqueFd read_;
  UniqueFd write_;
};

void PrintError(const std::string& data);

// Request: ExecRequest, AttachRequest; of these only the first takes signals and lets one go.
template <class Request, class Response>
class Conversation {
 public:
  using Stream = grpc::ClientReaderWriter<Request, Response>;

  Conversation(grpc::ClientContext& context, Stream& stream, const ConversationOptions& options)
      : context_(context), stream_(stream), options_(options) {}

  // Until the stream ends; `other(response)` gets what is no output. The error is of this side.
  template <class Other>
  Result<void> Run(const Request& first, Other other) {
    ASSIGN_OR_RETURN(const SenderWake wake, SenderWake::Make());
    std::optional<RawTerminal> terminal;
    if (options_.tty) {
      ASSIGN_OR_RETURN(RawTerminal raw, RawTerminal::Enter(STDIN_FILENO));
      terminal.emplace(std::move(raw));
      SenderWake::Catch(SIGWINCH);
    } else if constexpr (kTakesSignals) {
      for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) SenderWake::Catch(signal);
    }
    (void)stream_.Write(first);  // a failure shows in Finish()
    ASSIGN_OR_RETURN(std::thread sending, sys::StartThread("send", [&] { Send(wake); }));
    Print(other);
    SenderWake::End();
    sending.join();
    return {};
  }

  bool detached() const { return filter_.detached(); }

 private:
  static constexpr size_t kStdinChunk = 32 * 1024;
  static constexpr bool kTakesSignals = requires(Request request) { request.set_signal(0); };

  template <class Other>
  void Print(Other& other) {
    Response response;
    while (stream_.Read(&response)) {
      switch (response.payload_case()) {
        case Response::kStdout:
          cli::Print(response.stdout());  // the program goes on whatever becomes of it
          break;
        case Response::kStderr:
          PrintError(response.stderr());
          break;
        default:
          other(response);
          break;
      }
    }
  }

  void Send(const SenderWake& wake) {
    bool stdin_open = options_.stdin_open;
    if (options_.tty) (void)SendSize();
    while (true) {
      std::array<pollfd, 2> fds = {{{wake.fd(), POLLIN, 0}, {-1, POLLIN, 0}}};
      if (stdin_open) fds[1].fd = STDIN_FILENO;
      if (::poll(fds.data(), fds.size(), -1) < 0) continue;  // EINTR
      if (fds[0].revents != 0 && !HandleWake(wake)) return;
      if (fds[1].revents != 0) stdin_open = ForwardStdin();
      if (filter_.detached()) return;
    }
  }

  // False: it is over.
  bool HandleWake(const SenderWake& wake) {
    const auto signal = wake.Take();
    if (!signal) return false;
    if (*signal == SIGWINCH) return SendSize();
    Request request;
    if constexpr (kTakesSignals) request.set_signal(static_cast<uint32_t>(*signal));
    return stream_.Write(request);
  }

  bool SendSize() {
    const auto size = SizeOf(STDIN_FILENO);
    if (!size) return true;
    Request request;
    request.mutable_resize()->set_rows(size->rows);
    request.mutable_resize()->set_columns(size->columns);
    return stream_.Write(request);
  }

  // False: nothing more will come.
  bool ForwardStdin() {
    std::string data(kStdinChunk, '\0');
    const ssize_t count = ::read(STDIN_FILENO, data.data(), data.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    Request request;
    if (count <= 0) {
      request.set_stdin_closed(true);
      (void)stream_.Write(request);  // a stream that has ended is seen by its reader
      return false;
    }
    data.resize(static_cast<size_t>(count));
    if (options_.tty) data = filter_.Pass(data);
    if (!data.empty()) {
      request.set_stdin(std::move(data));
      if (!stream_.Write(request)) return false;
    }
    if (filter_.detached()) Detach();
    return !filter_.detached();
  }

  void Detach() {
    if constexpr (kTakesSignals) {
      Request request;
      request.set_detach(true);
      (void)stream_.Write(request);
    } else {
      context_.TryCancel();  // what runs does so without anybody
    }
  }

  grpc::ClientContext& context_;
  Stream& stream_;
  const ConversationOptions options_;
  DetachFilter filter_;
};

}  // namespace holdfast::agent::cli
