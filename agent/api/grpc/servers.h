// SPDX-License-Identifier: Apache-2.0
// Servers: the gRPC servers of the API, one for all callers with the same permissions: the permission
// belongs to the server object, so nothing that a caller sends can change it.
//
// They come with the first connection and go when nobody is connected: gRPC 1.51 wakes its threads ten
// times a second as long as there is a server, whether it serves or not. Used by the acceptor's
// thread, and by whoever starts and ends it, before and after.
#pragma once

#include <memory>

#include "agent/access/roles.h"
#include "agent/base/worker_pool.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace grpc {
class Server;
}

namespace holdfast::agent::api {

struct ServerCore;

class Servers {
 public:
  // `core` is borrowed.
  explicit Servers(ServerCore& core);
  // After Shutdown(): what the servers had to say last is written.
  ~Servers();
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // Makes one, as Serve() would, so that a server that cannot be made fails the start.
  Result<void> Try(access::OperationSet permitted);
  Result<void> Serve(UniqueFd connection, access::OperationSet permitted);
  // Nobody is connected: ends those that are there, on a thread of its own. False: there is none to be had, or a call
  // goes on without its client; they stay.
  bool Rest();
  // Calls are cancelled, and have ended in a second unless a handler holds one up.
  void Shutdown();

 private:
  class Generation;
  Result<grpc::Server*> For(access::OperationSet permitted);

  ServerCore& core_;
  std::unique_ptr<Generation> running_;
  WorkerPool ending_;  // of what uses core_, too
};

}  // namespace holdfast::agent::api
