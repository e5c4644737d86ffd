// SPDX-License-Identifier: Apache-2.0
// Session: the connection to the agent, and how its failures are told to a person. Thread-safe.
//
// An agent that is being restarted answers nobody for a moment. Commands wait kRestartPatience for
// it, and say so. Nothing was asked before there is a connection, so every command does. A call
// whose connection was lost is made again only where it changes nothing (Ask(), logs).
#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/v1/node_agent.grpc.pb.h"

namespace holdfast::agent::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

inline constexpr std::chrono::seconds kRestartPatience{5};

struct GlobalOptions {
  std::string socket;  // --socket, else HOLDFAST_SOCKET, else the default instance's
  std::string name_space = "default";
  bool namespace_given = false;
  bool all_namespaces = false;
  std::chrono::nanoseconds request_timeout{0};  // 0: none
};

class Session {
 public:
  enum class Patience : bool { kNone, kForARestart };
  // kUnavailable with words on what to do when nobody answers.
  static Result<std::unique_ptr<Session>> Connect(const GlobalOptions& options, Patience patience);

  // As long as the session is there.
  v1::NodeAgent::Stub& stub();
  const GlobalOptions& options() const { return options_; }

  // Of a call that ended so without an answer: true when the agent went away and there is another
  // one now, which stub() leads to.
  bool IsBack(const grpc::Status& status);

 private:
  explicit Session(GlobalOptions options) : options_(std::move(options)) {}
  Result<void> Dial(Patience patience);
  bool MayWait();

  const GlobalOptions options_;
  std::mutex mutex_;  // what follows
  // The last one is in use; calls of other threads may still be on those before.
  std::vector<std::unique_ptr<v1::NodeAgent::Stub>> stubs_;
  std::optional<std::chrono::steady_clock::time_point> wait_until_;  // since it was told
};

// Of a request that is answered at once: it is given up after --request-timeout.
class Call : public grpc::ClientContext {
 public:
  explicit Call(const Session& session);
};

// A call that changes nothing, made again when the agent went away before it had answered.
template <typename Method>
grpc::Status Ask(Session& session, Method method) {
  for (;;) {
    Call call(session);
    grpc::Status status = method(call);
    if (!session.IsBack(status)) return status;
  }
}

// Gives the request up after so long; 0 is never.
void SetDeadline(grpc::ClientContext& context, std::chrono::nanoseconds timeout);

// Ends a stream of which no more is wanted.
template <typename Stream>
void GiveUp(grpc::ClientContext& context, Stream& stream) {
  context.TryCancel();
  (void)stream.Finish();  // it says no more than that it was cancelled
}

// "Error from server (NotFound): pods "x" not found", with a hint where one helps.
std::string Explain(const grpc::Status& status);
// Prints Explain() to stderr; returns kFailed.
int Report(const grpc::Status& status);
// Of a call that changes something: without an answer nobody knows whether it did.
int ReportChange(const grpc::Status& status);
// "error: …" to stderr; returns kFailed.
int Report(const Error& error);
// What a look-up returns that finds nothing: why was told, its caller knows the exit code. `return Told(Report(error));`
inline std::nullopt_t Told(int /*exit_code*/) { return std::nullopt; }

}  // namespace holdfast::agent::cli
