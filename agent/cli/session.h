// SPDX-License-Identifier: Apache-2.0
// Session: one connection to the agent, and how its failures are told to a person.
// Single-thread; the generated stub may be used from a second thread.
#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/v1/node_agent.grpc.pb.h"

namespace holdfast::agent::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

struct GlobalOptions {
  std::string socket;  // --socket, else HOLDFAST_SOCKET, else the default instance's
  std::string name_space = "default";
  bool namespace_given = false;
  bool all_namespaces = false;
  std::chrono::nanoseconds request_timeout{0};  // 0: none
};

class Session {
 public:
  // kUnavailable with words on what to do when nobody answers.
  static Result<std::unique_ptr<Session>> Connect(const GlobalOptions& options);

  v1::NodeAgent::Stub& stub() { return *stub_; }
  const GlobalOptions& options() const { return options_; }

 private:
  Session(GlobalOptions options, std::unique_ptr<v1::NodeAgent::Stub> stub);

  GlobalOptions options_;
  std::unique_ptr<v1::NodeAgent::Stub> stub_;
};

// Of a request that is answered at once: it is given up after --request-timeout.
class Call : public grpc::ClientContext {
 public:
  explicit Call(const Session& session);
};

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
// "error: …" to stderr; returns kFailed.
int Report(const Error& error);

}  // namespace holdfast::agent::cli
