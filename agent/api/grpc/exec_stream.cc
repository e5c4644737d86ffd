// SPDX-License-Identifier: Apache-2.0
// Exec and Attach: a program in a container, and a container's own streams.
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <sys/ioctl.h>

#include <csignal>

#include "agent/api/grpc/service.h"
#include "agent/api/grpc/session_stream.h"
#include "agent/kube/containers_of.h"
#include "agent/view/find_container.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent::api {
namespace {

TerminalSize SizeIn(const v1::ExecRequest::Resize& resize) {
  return {static_cast<uint16_t>(resize.rows()), static_cast<uint16_t>(resize.columns())};
}

// What the messages of both have in common. Request: ExecRequest, AttachRequest.
template <class Request, class Response>
class CommandStream : public SessionStream<Request, Response> {
 protected:
  using Base = SessionStream<Request, Response>;
  CommandStream(ServerCore& core, std::string peer)
      : Base(core, std::move(peer), SessionKind::kCommand) {}

  // Who is meant by `start`, which is an Exec's or an Attach's.
  template <class Start>
  Result<std::pair<PodPtr, std::string>> Find(const Start& start) {
    ASSIGN_OR_RETURN(PodPtr pod,
                     FindPod(this->core().node.pods(), start.namespace_(), start.pod()));
    ASSIGN_OR_RETURN(std::string container, ChooseContainer(*pod, start.container()));
    return std::pair(std::move(pod), std::move(container));
  }

  access::AuditEntry EntryFor(Method method, const k8s::io::api::core::v1::Pod& pod,
                              const std::string& container, std::string detail) {
    return this->Entry(
        method, StrCat(pod.metadata().namespace_(), "/", pod.metadata().name(), "/", container),
        pod.metadata().uid(), std::move(detail));
  }

  bool TakeInput(const Request& message) {
    return !takes_input_ || this->Feed(message.stdin(), "stdin");
  }

  void FillOutput(StreamOutput output, std::string bytes, Response& message) final {
    if (output == StreamOutput::kStderr) {
      message.set_stderr(std::move(bytes));
    } else {
      message.set_stdout(std::move(bytes));
    }
  }

  bool takes_input_ = false;
};

class ExecStream final : public CommandStream<v1::ExecRequest, v1::ExecResponse> {
 public:
  ExecStream(ServerCore& core, std::string peer) : CommandStream(core, std::move(peer)) {}

 private:
  Result<SessionPlan> Plan(v1::ExecRequest& first) override {
    const v1::ExecRequest::Start& start = first.start();
    ASSIGN_OR_RETURN(const auto found, Find(start));
    if (start.argv().empty()) return InvalidArgument("argv: at least the program is required");
    takes_input_ = start.stdin();
    ExecSpec spec;
    spec.argv.assign(start.argv().begin(), start.argv().end());
    spec.stdin_open = start.stdin();
    spec.tty = start.tty();
    if (start.rows() != 0) spec.rows = static_cast<uint16_t>(start.rows());
    if (start.columns() != 0) spec.columns = static_cast<uint16_t>(start.columns());
    const auto& [pod, container] = found;
    return SessionPlan{EntryFor(Method::kExec, *pod, container, start.argv(0)),
                       [&node = core().node, pod, container, spec]() -> Result<SessionEnds> {
                         ASSIGN_OR_RETURN(const ContainerId id, RunningContainer(*pod, container));
                         HOLDFAST_PAUSE_POINT("api.exec.before_start");
                         return ExecOpener(node, id, spec)();
                       }};
  }

  bool Take(v1::ExecRequest& message) override {
    switch (message.payload_case()) {
      case v1::ExecRequest::kStdin:
        return TakeInput(message);
      case v1::ExecRequest::kStdinClosed:
        session().EndInput();
        break;
      case v1::ExecRequest::kResize:
        session().Resize(SizeIn(message.resize()));
        break;
      case v1::ExecRequest::kSignal:
        return TakeSignal(message.signal());
      case v1::ExecRequest::kDetach:
        LetGo();
        break;
      case v1::ExecRequest::kStart:
      case v1::ExecRequest::PAYLOAD_NOT_SET:
        break;  // a second start, or nothing: no meaning
    }
    return true;
  }

  bool TakeSignal(uint32_t signal) {
    if (signal < 1 || signal > static_cast<uint32_t>(SIGRTMAX)) {
      End(ToStatus(InvalidArgument(StrCat("signal ", signal, ": not a signal number"))));
      return false;
    }
    session().Signal(static_cast<int>(signal));
    return true;
  }

  bool FillEnd(const StreamEnd& end, v1::ExecResponse& message) override {
    if (!end.exit) return false;
    message.mutable_exit()->set_code(end.exit->exit_code);
    message.mutable_exit()->set_signal(end.exit->signal);
    return true;
  }
};

class AttachStream final : public CommandStream<v1::AttachRequest, v1::AttachResponse> {
 public:
  AttachStream(ServerCore& core, std::string peer) : CommandStream(core, std::move(peer)) {}

 private:
  Result<SessionPlan> Plan(v1::AttachRequest& first) override {
    const v1::AttachRequest::Start& start = first.start();
    ASSIGN_OR_RETURN(const auto found, Find(start));
    const auto& [pod, container] = found;
    takes_input_ = start.stdin();
    const winsize size{static_cast<uint16_t>(start.rows()), static_cast<uint16_t>(start.columns()),
                       0, 0};
    const AttachSpec spec{.input = start.stdin(),
                          .output = true,
                          .error_output = !kube::HasTerminal(*pod, container)};
    return SessionPlan{
        EntryFor(Method::kAttach, *pod, container, ""),
        [&node = core().node, pod, container, spec, size]() -> Result<SessionEnds> {
          ASSIGN_OR_RETURN(const ContainerId id, RunningContainer(*pod, container));
          ASSIGN_OR_RETURN(SessionEnds ends, AttachOpener(node, id, spec)());
          if (spec.input && !ends.input) {
            return InvalidArgument(ContainerInPod(*pod, container) + " was started without stdin");
          }
          // Here, and not by the session: it would keep the newest size only.
          if (ends.terminal && ends.input && size.ws_row != 0 && size.ws_col != 0) {
            (void)::ioctl(ends.input.get(), TIOCSWINSZ, &size);  // too late for one that has ended
          }
          return ends;
        }};
  }

  bool Take(v1::AttachRequest& message) override {
    switch (message.payload_case()) {
      case v1::AttachRequest::kStdin:
        return TakeInput(message);
      case v1::AttachRequest::kStdinClosed:
        session().EndInput();
        break;
      case v1::AttachRequest::kResize:
        session().Resize(SizeIn(message.resize()));
        break;
      case v1::AttachRequest::kStart:
      case v1::AttachRequest::PAYLOAD_NOT_SET:
        break;  // a second start, or nothing: no meaning
    }
    return true;
  }
};

}  // namespace

grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecResponse>* NodeAgentService::Exec(
    grpc::CallbackServerContext* context) {
  return Stream<ExecStream, grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecResponse>>(
      *context, Method::kExec);
}

grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>* NodeAgentService::Attach(
    grpc::CallbackServerContext* context) {
  return Stream<AttachStream, grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>>(
      *context, Method::kAttach);
}

}  // namespace holdfast::agent::api
