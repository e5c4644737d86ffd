// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/session.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "agent/cli/table.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/instance.h"

namespace holdfast::agent::cli {
namespace {

constexpr int kMaxMessage = 64 << 20;
constexpr std::chrono::milliseconds kBetweenTries{100};

std::string SocketPath(const GlobalOptions& options) {
  if (!options.socket.empty()) return options.socket;
  const char* from_environment = std::getenv("HOLDFAST_SOCKET");
  if (from_environment != nullptr && *from_environment != '\0') return from_environment;
  return model::Instance().ApiSocket();
}

Error ConnectError(const std::string& path, int reason) {
  const std::string hint = "\nIs it another one? Name its socket with --socket or HOLDFAST_SOCKET.";
  if (reason == ENOENT || reason == ECONNREFUSED || reason == ENOTDIR) {
    const std::string_view what = reason == ECONNREFUSED ? "nobody answers on " : "no socket at ";
    return Unavailable(StrCat("the agent is not running: ", what, path,
                              "\nStart it: systemctl start holdfastd (on a machine without "
                              "systemd: packaging/quickstart)",
                              hint));
  }
  if (reason == EACCES || reason == EPERM) {
    const model::Instance instance;
    return Error(Code::kPermissionDenied,
                 StrCat("no permission to use ", path, "\nUse sudo, or join the group: sudo ",
                        "usermod -aG ", instance.api_group, " $USER, and log in again"));
  }
  return Error::FromErrno(reason, "connect " + path);
}

// Connected by us, so that a failure has its errno, and so that a long path is no obstacle.
Result<UniqueFd> ConnectTo(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const UniqueFd parent(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!parent) return ConnectError(path, errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string short_path = StrCat("/proc/self/fd/", parent.get(), "/", name);
  if (short_path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument("socket name " + name + ": too long");
  }
  std::memcpy(address.sun_path, short_path.c_str(), short_path.size() + 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return Error::FromErrno(errno, "socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ConnectError(path, errno);
  }
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return Error::FromErrno(errno, "fcntl O_NONBLOCK");
  }
  return socket;
}

constexpr int kFirstWordMs = 5000;
constexpr size_t kFrameHeader = 9;
constexpr size_t kGoawayFixed = 8;  // last stream and error code
constexpr char kGoaway = 7;

// The agent speaks first. Where that is a GOAWAY (RFC 9113, 6.8) instead of HTTP/2's SETTINGS, it
// turns us away and says why. Looked at before gRPC is, which would only tell of a lost connection.
Result<void> RequireWelcome(int socket, std::chrono::nanoseconds timeout) {
  pollfd fd{.fd = socket, .events = POLLIN, .revents = 0};
  int wait_ms = kFirstWordMs;
  if (timeout.count() != 0 && timeout < std::chrono::milliseconds(kFirstWordMs)) {
    wait_ms = static_cast<int>(timeout / std::chrono::milliseconds(1));
  }
  // One that says nothing for so long may still be slow: the calls will tell.
  if (::poll(&fd, 1, wait_ms) != 1) return {};
  std::array<char, 1024> first{};
  const ssize_t count = ::recv(socket, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count <= static_cast<ssize_t>(kFrameHeader + kGoawayFixed) || first[3] != kGoaway) return {};
  const std::string_view frame(first.data(), static_cast<size_t>(count));
  return Error(Code::kPermissionDenied,
               StrCat("the agent turns you away: ", frame.substr(kFrameHeader + kGoawayFixed)));
}

// Kubernetes' word for the kind of failure.
const char* Reason(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return "BadRequest";
    case grpc::StatusCode::NOT_FOUND:
      return "NotFound";
    case grpc::StatusCode::ALREADY_EXISTS:
      return "AlreadyExists";
    case grpc::StatusCode::PERMISSION_DENIED:
      return "Forbidden";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "MethodNotAllowed";
    case grpc::StatusCode::UNAVAILABLE:
      return "ServiceUnavailable";
    case grpc::StatusCode::ABORTED:
      return "Conflict";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "TooManyRequests";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "Timeout";
    default:
      return "InternalError";
  }
}

// The words with which gRPC says that the connection, not the call, has failed; CANCELLED is what an agent that ends says of
// what it had not begun with.
bool IsConnectionLoss(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::CANCELLED) return true;
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         (status.error_message().find("Socket closed") != std::string::npos ||
          status.error_message().find("Transport closed") != std::string::npos ||
          status.error_message().find("reset by peer") != std::string::npos ||
          status.error_message().find("Broken pipe") != std::string::npos ||
          status.error_message().find("Cancelling all calls") != std::string::npos ||
          status.error_message().find("GOAWAY received") != std::string::npos ||
          status.error_message().find("onnection") != std::string::npos);
}

std::string WordsOf(const grpc::Status& status) {
  return status.error_message().empty() ? "no words with it" : status.error_message();
}

Result<std::unique_ptr<v1::NodeAgent::Stub>> DialOnce(const GlobalOptions& options) {
  ASSIGN_OR_RETURN(UniqueFd socket, ConnectTo(SocketPath(options)));
  RETURN_IF_ERROR(RequireWelcome(socket.get(), options.request_timeout));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessage);
  auto channel = grpc::CreateCustomInsecureChannelFromFd("agent", socket.Release(), arguments);
  return v1::NodeAgent::NewStub(channel);
}

}  // namespace

Result<std::unique_ptr<Session>> Session::Connect(const GlobalOptions& options, Patience patience) {
  std::unique_ptr<Session> session(new Session(options));
  RETURN_IF_ERROR(session->Dial(patience));
  return session;
}

v1::NodeAgent::Stub& Session::stub() {
  const std::lock_guard lock(mutex_);
  return *stubs_.back();
}

bool Session::IsBack(const grpc::Status& status) {
  if (!IsConnectionLoss(status)) return false;
  const std::lock_guard lock(mutex_);
  if (!MayWait()) return false;
  std::this_thread::sleep_for(kBetweenTries);  // one that is about to end may still let us in
  return Dial(Patience::kForARestart).has_value();
}

Result<void> Session::Dial(Patience patience) {
  for (;;) {
    auto stub = DialOnce(options_);
    if (stub) {
      stubs_.push_back(std::move(*stub));
      return {};
    }
    const bool nobody = stub.error().code() == Code::kUnavailable;
    if (!nobody || patience == Patience::kNone || !MayWait()) return std::move(stub.error());
    std::this_thread::sleep_for(kBetweenTries);
  }
}

bool Session::MayWait() {
  const auto now = std::chrono::steady_clock::now();
  if (!wait_until_) {
    std::chrono::nanoseconds patience = kRestartPatience;
    if (options_.request_timeout.count() != 0) {
      patience = std::min(patience, options_.request_timeout);
    }
    wait_until_ = now + patience;
    std::fprintf(stderr, "The agent does not answer. It may be restarting: trying again\n");
  }
  return now < *wait_until_;
}

Call::Call(const Session& session) { SetDeadline(*this, session.options().request_timeout); }

void SetDeadline(grpc::ClientContext& context, std::chrono::nanoseconds timeout) {
  if (timeout.count() == 0) return;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
}

std::string Explain(const grpc::Status& status) {
  if (IsConnectionLoss(status)) {
    return StrCat("error: the agent went away, as when it is stopped or restarted (",
                  WordsOf(status), "); pods go on without it: run the command again");
  }
  // gRPC's words for the deadline that this program set.
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
      status.error_message() == "Deadline Exceeded") {
    return "error: the agent gave no answer within --request-timeout";
  }
  return StrCat("Error from server (", Reason(status.error_code()), "): ", status.error_message());
}

int Report(const grpc::Status& status) {
  std::fprintf(stderr, "%s\n", Visible(Explain(status)).c_str());
  return kFailed;
}

int ReportChange(const grpc::Status& status) {
  if (!IsConnectionLoss(status)) return Report(status);
  std::fprintf(
      stderr,
      "error: the agent went away, as when it is stopped or restarted (%s); whether it did "
      "what it was asked is not known: look before you run the command again\n",
      Visible(WordsOf(status)).c_str());
  return kFailed;
}

int Report(const Error& error) {
  std::fprintf(stderr, "error: %s\n", Visible(error.message()).c_str());
  return kFailed;
}

}  // namespace holdfast::agent::cli
