// SPDX-License-Identifier: Apache-2.0
// Connection: one client of the API socket and the socket pair to the gRPC server behind it.
//
// Bytes pass through a FrameGuard; what one side cannot take at once is kept, at most one piece per
// direction, and the other side is not read meanwhile. Belongs to the acceptor's thread; never
// blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "agent/access/peer.h"
#include "agent/api/grpc/frame_guard.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::api {

// How long a client that was turned away, or whose server is done, may take to read the last of it.
inline constexpr std::chrono::seconds kFarewellTime{1};

class Connection {
 public:
  enum class Side : uint8_t { kClient, kServer };
  using Time = FrameGuard::Time;

  // `client` is the accepted socket, `server` our end of the pair. `handshake`: from now to the
  // client's HTTP/2 preface and SETTINGS.
  Connection(UniqueFd client, UniqueFd server, access::Peer peer, uint32_t max_streams,
             std::chrono::seconds handshake, Time now);

  // epoll(7) reported `events` for `side`. `scratch` is the caller's buffer, of any contents. What
  // it returns has to be answered by TurnAway().
  std::optional<FrameGuard::Violation> OnEvents(Side side, uint32_t events, std::span<char> scratch,
                                                Time now);
  // Ends the server's side and tells the client why, with a GOAWAY where one can be put.
  void TurnAway(http2::ErrorCode code, std::string_view text, Time now);
  // Passes on what gRPC has written already; before the thread ends.
  void Drain(std::span<char> scratch);

  // Nothing is left to do: destroy it.
  bool finished() const { return finished_; }
  // No longer served.
  bool turned_away() const { return !server_; }
  // The events to wait for; nullopt for a descriptor that epoll should not hold: its hang-up is
  // known, and would be told again and again.
  std::optional<uint32_t> Wanted(Side side) const;
  int fd(Side side) const { return side == Side::kClient ? client_.get() : server_.get(); }
  // When it must be over, if the state of now lasts.
  std::optional<Time> deadline() const;

  const access::Peer& peer() const { return peer_; }
  // Without a call at work.
  bool IsIdle() const { return guard_.OpenCalls() == 0; }
  bool EverCalled() const { return guard_.LastStream() != 0; }
  Time began() const { return began_; }
  bool Greeted() const { return guard_.Greeted(); }
  // Bytes of both directions.
  uint64_t moved() const { return moved_; }
  // Of the last bytes in either direction.
  Time last_use() const { return last_use_; }

 private:
  std::optional<FrameGuard::Violation> MoveToServer(std::span<char> scratch, Time now);
  void MoveToClient(std::span<char> scratch);
  void Discard(std::span<char> scratch);

  UniqueFd client_;
  UniqueFd server_;  // invalid once turned away
  const access::Peer peer_;
  FrameGuard guard_;
  std::string to_server_;  // read and not yet taken
  std::string to_client_;
  bool client_ended_ = false;  // end-of-file: it sends no more, but may read
  bool client_hung_up_ = false;
  bool server_hung_up_ = false;
  bool finished_ = false;
  size_t discarded_ = 0;
  uint64_t moved_ = 0;
  const Time began_;
  const std::chrono::seconds handshake_;
  Time last_use_;
  Time farewell_began_;
};

}  // namespace holdfast::agent::api
