// SPDX-License-Identifier: Apache-2.0
// Session: one connection to the agent, and how its failures are told to a person.
// Single-thread; the generated stub may be used from a second thread.
#pragma once

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
  bool all_namespaces = false;
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

// "Error from server (NotFound): pods "x" not found", with a hint where one helps.
std::string Explain(const grpc::Status& status);
// Prints Explain() to stderr; returns kFailed.
int Report(const grpc::Status& status);
// "error: …" to stderr; returns kFailed.
int Report(const Error& error);

}  // namespace holdfast::agent::cli
