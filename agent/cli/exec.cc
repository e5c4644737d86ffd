// SPDX-License-Identifier: Apache-2.0
// exec: two threads on one stream. The main thread prints what comes; the sender forwards stdin,
// window changes and signals, and is woken through a pipe.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "agent/cli/commands.h"
#include "agent/cli/default_container.h"
#include "agent/cli/objects.h"
#include "agent/cli/out.h"
#include "agent/cli/terminal.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr size_t kStdinChunk = 32 * 1024;

struct ExecOptions {
  std::string pod;
  std::string container;
  std::vector<std::string> command;  // without "--", as kubectl once allowed
  bool stdin_open = false;
  bool tty = false;
  bool quiet = false;
};

using Stream = grpc::ClientReaderWriter<v1::ExecRequest, v1::ExecResponse>;

// Signal handlers and the main thread write one byte into it: the signal's number, or 0 for the
// end.
int g_wake = -1;
void ForwardSignal(int signal) {
  const auto byte = static_cast<unsigned char>(signal);
  (void)!::write(g_wake, &byte, 1);  // a full pipe: the sender is awake already
}

void Catch(int signal) {
  struct sigaction action{};
  action.sa_handler = ForwardSignal;
  action.sa_flags = SA_RESTART;
  (void)::sigaction(signal, &action, nullptr);  // cannot fail for these signals
}

class Sender {
 public:
  Sender(Stream& stream, const ExecOptions& options, UniqueFd wake)
      : stream_(stream), options_(options), wake_(std::move(wake)) {}

  void Run() {
    bool stdin_open = options_.stdin_open;
    while (true) {
      std::array<pollfd, 2> fds = {{{wake_.get(), POLLIN, 0}, {-1, POLLIN, 0}}};
      if (stdin_open) fds[1].fd = STDIN_FILENO;
      if (::poll(fds.data(), fds.size(), -1) < 0) continue;  // EINTR
      if (fds[0].revents != 0 && !HandleWake()) return;
      if (fds[1].revents != 0) stdin_open = ForwardStdin();
      if (filter_.detached()) return;
    }
  }

  bool detached() const { return filter_.detached(); }

 private:
  // False: the session is over.
  bool HandleWake() {
    unsigned char byte = 0;
    if (::read(wake_.get(), &byte, 1) != 1 || byte == 0) return false;
    v1::ExecRequest request;
    if (byte == SIGWINCH) {
      const auto size = SizeOf(STDIN_FILENO);
      if (!size) return true;
      request.mutable_resize()->set_rows(size->rows);
      request.mutable_resize()->set_columns(size->columns);
    } else {
      request.set_signal(byte);
    }
    return stream_.Write(request);
  }

  // False: nothing more will come.
  bool ForwardStdin() {
    std::string data(kStdinChunk, '\0');
    const ssize_t count = ::read(STDIN_FILENO, data.data(), data.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    v1::ExecRequest request;
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
    if (filter_.detached()) {
      request.set_detach(true);
      (void)stream_.Write(request);
    }
    return !filter_.detached();
  }

  Stream& stream_;
  const ExecOptions& options_;
  const UniqueFd wake_;
  DetachFilter filter_;
};

void PrintError(const std::string& data) {
  std::fwrite(data.data(), 1, data.size(), stderr);
  std::fflush(stderr);
}

// Until the stream ends; the program's exit, if it was told.
std::optional<v1::ExecResponse::Exit> PrintOutput(Stream& stream) {
  std::optional<v1::ExecResponse::Exit> exit;
  v1::ExecResponse response;
  while (stream.Read(&response)) {
    switch (response.payload_case()) {
      case v1::ExecResponse::kStdout:
        Print(response.stdout());  // the program goes on whatever becomes of it
        break;
      case v1::ExecResponse::kStderr:
        PrintError(response.stderr());
        break;
      case v1::ExecResponse::kExit:
        exit = response.exit();
        break;
      case v1::ExecResponse::PAYLOAD_NOT_SET:
        break;
    }
  }
  return exit;
}

v1::ExecRequest StartMessage(const ExecOptions& options, const core::Pod& pod,
                             const std::vector<std::string>& command) {
  v1::ExecRequest request;
  v1::ExecRequest::Start& start = *request.mutable_start();
  start.set_namespace_(pod.metadata().namespace_());
  start.set_pod(pod.metadata().name());
  start.set_container(options.container);
  start.mutable_argv()->Assign(command.begin(), command.end());
  start.set_stdin(options.stdin_open);
  start.set_tty(options.tty);
  if (const auto size = SizeOf(STDIN_FILENO); options.tty && size) {
    start.set_rows(size->rows);
    start.set_columns(size->columns);
  }
  return request;
}

int Converse(Session& session, const v1::ExecRequest& first, const ExecOptions& options) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return Report(Error::FromErrno(errno, "pipe"));
  UniqueFd wake_read(pipe_ends[0]);
  const UniqueFd wake_write(pipe_ends[1]);
  g_wake = wake_write.get();
  std::optional<RawTerminal> terminal;
  if (options.tty) {
    auto raw = RawTerminal::Enter(STDIN_FILENO);
    if (!raw) return Report(raw.error());
    terminal.emplace(std::move(*raw));
    Catch(SIGWINCH);
  } else {
    for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) Catch(signal);
  }
  grpc::ClientContext context;
  const auto stream = session.stub().Exec(&context);
  (void)stream->Write(first);  // a failure shows in Finish()
  Sender sender(*stream, options, std::move(wake_read));
  auto sending = sys::StartThread("send", [&] { sender.Run(); });
  if (!sending) return Report(sending.error());
  const auto exit = PrintOutput(*stream);
  ForwardSignal(0);
  sending->join();
  terminal.reset();
  const grpc::Status status = stream->Finish();
  if (!status.ok()) return ReportChange(status);
  if (sender.detached()) {
    std::fprintf(stderr, "detached; the program goes on\n");
    return kOk;
  }
  if (!exit) return Report(Internal("the session ended without an exit code"));
  if (exit->code() != 0) {
    std::fprintf(stderr, "command terminated with exit code %d\n", exit->code());
  }
  return exit->code();
}

int RunExec(ExecOptions options, const Invocation& invocation) {
  std::vector<std::string> command = options.command;
  command.insert(command.end(), invocation.after_dashes.begin(), invocation.after_dashes.end());
  if (command.empty()) {
    throw CLI::ValidationError("exec", "you must specify at least one command for the container");
  }
  if (options.tty && (!options.stdin_open || ::isatty(STDIN_FILENO) == 0)) {
    if (options.stdin_open) {
      std::fprintf(stderr,
                   "Unable to use a TTY - input is not a terminal or the right kind of file\n");
    }
    options.tty = false;
  }
  return WithSession(invocation.global, [&](Session& session) {
    const auto pod = FindPod(session, options.pod);
    if (!pod) return kFailed;
    if (options.container.empty()) options.container = DefaultContainer(*pod, options.quiet);
    return Converse(session, StartMessage(options, *pod, command), options);
  });
}

}  // namespace

void AddExec(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<ExecOptions>();
  CLI::App* command = app.add_subcommand("exec", "Run a program in a container");
  command->fallthrough();
  command->footer(
      "\nexec POD [-c CONTAINER] [-it] -- PROGRAM [ARGUMENT…]\n"
      "^P^Q leaves a terminal session and lets the program go on.");
  command->add_option("pod", options->pod, "Pod: a name, pod/NAME, namespace/NAME or a beginning")
      ->required();
  command->add_option("command", options->command, "Program and arguments; better behind --");
  command->add_option("-c,--container", options->container, "Container of the pod");
  command->add_flag("-i,--stdin", options->stdin_open, "Pass stdin on");
  command->add_flag("-t,--tty", options->tty, "With a terminal");
  command->add_flag("-q,--quiet", options->quiet, "Only what the program prints");
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunExec(*options, invocation); };
  });
}

}  // namespace holdfast::agent::cli
