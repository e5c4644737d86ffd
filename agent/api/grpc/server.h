// SPDX-License-Identifier: Apache-2.0
// ApiServer: holdfast.v1.NodeAgent on a unix socket.
//
// Owns the listening socket, a thread that accepts and reads peer credentials, the gRPC servers
// (servers.h), a thread for the sessions of all streams, and bounded worker threads for calls that block.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/model/instance.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {

class NodeOperations;

namespace access {
class AuditLog;
}

struct ApiOptions {
  std::string socket_path{};              // "" is Instance::ApiSocket()
  std::string group_file = "/etc/group";  // where api_group and its role groups are looked up
  uint32_t connections_per_uid = 64;
  uint32_t connection_reserve = 8;  // per user, while all of those have calls at work
  uint32_t streams_per_connection = 128;
  std::chrono::seconds handshake_time{30};  // from connecting to the client's first words
  uint32_t pending_changes = 10'000;        // per watcher: objects changed and not yet read
  uint32_t command_sessions = 64;           // of Exec and Attach
  uint32_t forwarded_connections = 1024;
  uint32_t image_transfers = 4;
  std::chrono::milliseconds connection_idle = std::chrono::minutes(5);  // then it is closed
  std::chrono::milliseconds rest{
      5000};  // so long after the last connection gRPC is ended, until the next
  // Asked before gRPC is begun: whether it will get so many threads.
  std::function<Result<void>(size_t)> have_threads = sys::TryThreads;
};

class ApiServer {
 public:
  // Listens when it returns. kConflict while another agent answers on the socket. `node`, `clock` and
  // `audit` are borrowed.
  static Result<std::unique_ptr<ApiServer>> Start(NodeOperations& node,
                                                  const model::Instance& instance,
                                                  const Clock& clock, access::AuditLog& audit,
                                                  ApiOptions options = {});
  // Cancels every call, ends every session and joins all threads. Removes the socket.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

 private:
  class Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::agent
