// SPDX-License-Identifier: Apache-2.0
// Acceptor: accepts on the API socket, decides by the peer's credentials, hands connections on.
//
// One thread. For each connection it keeps a second descriptor, by which it sees the connection end
// (hang-up) and so keeps the count per user. The other descriptor belongs to `serve`. Descriptor
// numbers handed to `serve` come from a rotating range, so that a number names one connection for
// long after its end: PeerOf() is how a handler learns who called.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "agent/api/grpc/peer.h"
#include "agent/api/grpc/roles.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::api {

class Acceptor {
 public:
  // Called on the acceptor's thread; takes the descriptor.
  using Serve = std::function<void(UniqueFd connection, OperationSet permitted)>;
  // A peer that was turned away, and why.
  using Refused = std::function<void(const Peer& peer, const std::string& reason)>;

  // `listener` is borrowed, non-blocking and already listening.
  static Result<std::unique_ptr<Acceptor>> Create(int listener, RoleTable roles,
                                                  uint32_t connections_per_uid, Serve serve,
                                                  Refused refused);
  void Start();
  ~Acceptor();  // Stop()
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Ends the thread. Connections that were handed on stay, and PeerOf() still answers.
  void Stop();

  // Who is behind grpc::ServerContext::peer(), "fd:<number>". Thread-safe.
  std::optional<Peer> PeerOf(const std::string& grpc_peer) const;
  // Connections open now. Thread-safe.
  size_t ConnectionCount() const;

 private:
  Acceptor(int listener, RoleTable roles, uint32_t connections_per_uid, Serve serve,
           Refused refused, UniqueFd epoll, UniqueFd stop);
  void Run();
  void AcceptAll();
  void Admit(UniqueFd connection);
  Result<UniqueFd> DuplicateForServe(int connection);
  void Forget(int monitor);

  struct Open {
    UniqueFd monitor;
    uid_t uid;
    int number;  // the descriptor number that `serve` got
  };

  const int listener_;
  const RoleTable roles_;
  const uint32_t connections_per_uid_;
  const Serve serve_;
  const Refused refused_;
  const UniqueFd epoll_;
  const UniqueFd stop_;
  std::unordered_map<int, Open> open_;           // by monitor; the thread's own
  std::unordered_map<uid_t, uint32_t> per_uid_;  // the thread's own
  int next_number_;
  mutable std::mutex mutex_;
  std::unordered_map<int, Peer> peers_;  // by number; guarded by mutex_
  size_t open_count_ = 0;                // guarded by mutex_
  std::thread thread_;
};

}  // namespace holdfast::agent::api
