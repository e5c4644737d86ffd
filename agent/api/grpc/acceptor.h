// SPDX-License-Identifier: Apache-2.0
// Acceptor: accepts on the API socket, decides by the peer's credentials, and stands between each
// client and the gRPC server of its permissions (connection.h).
//
// One thread. `serve` gets one end of a socket pair, by whose number a handler learns who called (peer_book.h). Who has to
// make room for whom says places.h.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "agent/access/peer.h"
#include "agent/access/roles.h"
#include "agent/api/grpc/connection.h"
#include "agent/api/grpc/connection_limits.h"
#include "agent/api/grpc/peer_book.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent::api {

class Acceptor {
 public:
  // Called on the acceptor's thread; takes the descriptor. An error is told to the client.
  using Serve = std::function<Result<void>(UniqueFd connection, access::OperationSet permitted)>;
  // A peer that was turned away, and why.
  using Refused = std::function<void(const access::Peer& peer, const std::string& reason)>;
  // Connections that moved much have ended a while ago: their memory can go back to the system.
  using Tidy = std::function<void()>;
  // Nobody has been connected for a while. False: it is to be called again later.
  using Rest = std::function<bool()>;

  // `listener` is borrowed, non-blocking and already listening.
  static Result<std::unique_ptr<Acceptor>> Create(int listener, access::RoleTable roles,
                                                  ConnectionLimits limits, Serve serve,
                                                  Refused refused, Tidy tidy, Rest rest);
  Result<void> Start();
  ~Acceptor();  // Stop()
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // No new connections; those that are there go on. Afterwards neither `serve` nor `rest` is called any more, nor still at work.
  void StopAccepting();
  // Ends the thread and every connection, after what the servers have written. Peers() still
  // answers.
  void Stop();

  const PeerBook& Peers() const { return peers_; }
  // Connections that are served now. Thread-safe.
  size_t ConnectionCount() const;

 private:
  using Id = uint64_t;
  using Time = Connection::Time;
  struct Entry {
    Connection connection;
    // What epoll holds now, by side.
    std::array<std::optional<uint32_t>, 2> watched{};
    std::optional<Time> deadline;
    bool counted = false;
  };

  Acceptor(int listener, access::RoleTable roles, ConnectionLimits limits, Serve serve,
           Refused refused, Tidy tidy, Rest rest, UniqueFd epoll, sys::Wakeup wake);
  void Run();
  // False: the thread is to end.
  bool OnWake();
  void AcceptAll();
  // Closes one client that waits, with the spare descriptor. False: none waits.
  bool TurnAwayWithSpare();
  void Admit(UniqueFd client);
  // kUnavailable with words for the client when there is no place for it.
  Result<void> MakeRoomFor(uid_t uid);
  // Stops to listen for a moment: what accept(2) lacks, it will lack at once again.
  void PauseAccepting();
  Result<void> Begin(UniqueFd client, access::Peer peer);
  void OnEvents(Id id, Connection::Side side, uint32_t events);
  void TurnAway(Id id, Entry& entry, http2::ErrorCode code, const std::string& text);
  // A client that was never served.
  void Refuse(UniqueFd client, access::Peer peer, const std::string& text);
  // Brings epoll, deadlines and counts up to the connection's state; ends it when it is finished.
  void Update(Id id, Entry& entry);
  void Watch(Id id, Entry& entry, Connection::Side side, std::optional<uint32_t> wanted);
  void Uncount(Entry& entry);
  void OnDeadlines(Time now);
  int TimeoutMs() const;

  const int listener_;
  const access::RoleTable roles_;
  const ConnectionLimits limits_;
  const Serve serve_;
  const Refused refused_;
  const Tidy tidy_;
  const Rest rest_;
  const UniqueFd epoll_;
  const sys::Wakeup wake_;
  // The thread's own. `spare_` is given up to accept, and close, a client when no descriptor is
  // free.
  UniqueFd spare_;
  std::unordered_map<Id, Entry> entries_;
  std::set<std::pair<Time, Id>> deadlines_;
  std::optional<Time> tidy_at_;
  std::optional<Time> rest_at_;    // set: nobody is connected
  std::optional<Time> accept_at_;  // set: not listening until then
  Id next_id_;
  std::array<char, 64 << 10> scratch_;

  std::atomic<bool> accepting_ = true;
  mutable std::mutex mutex_;
  std::condition_variable deaf_;
  bool is_deaf_ = false;   // accepts nobody any more; guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  size_t open_count_ = 0;  // guarded by mutex_
  PeerBook peers_;
  std::thread thread_;
};

}  // namespace holdfast::agent::api
