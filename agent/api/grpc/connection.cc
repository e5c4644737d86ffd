// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace holdfast::agent::api {
namespace {

// A client that goes on sending after it was told to go is not listened to for long.
constexpr size_t kMaxDiscarded = 1 << 20;

// What recv(2) gave: `bytes` is empty at end-of-file, and when there is nothing or an error.
struct Received {
  std::string_view bytes;
  bool ended = false;
};

Received Receive(int fd, std::span<char> scratch) {
  const ssize_t count = ::recv(fd, scratch.data(), scratch.size(), MSG_DONTWAIT);
  if (count > 0) return {{scratch.data(), static_cast<size_t>(count)}, false};
  const bool later = count < 0 && (errno == EAGAIN || errno == EINTR);
  return {{}, !later};
}

// Sends what fits; the rest becomes `kept`. False: the other end is gone.
bool Send(int fd, std::string_view bytes, std::string& kept) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      if (errno != EAGAIN) return false;
      break;
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  // A fresh string, so that a piece that once had to wait leaves no memory behind.
  kept = std::string(bytes);
  return true;
}

}  // namespace

Connection::Connection(UniqueFd client, UniqueFd server, access::Peer peer, uint32_t max_streams,
                       std::chrono::seconds handshake, Time now)
    : client_(std::move(client)),
      server_(std::move(server)),
      peer_(std::move(peer)),
      guard_(max_streams, now),
      began_(now),
      handshake_(handshake),
      last_use_(now),
      farewell_began_(now) {}

std::optional<FrameGuard::Violation> Connection::OnEvents(Side side, uint32_t events,
                                                          std::span<char> scratch, Time now) {
  if (turned_away()) {
    Discard(scratch);
    return std::nullopt;
  }
  last_use_ = now;
  bool& hung_up = side == Side::kClient ? client_hung_up_ : server_hung_up_;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0 && !hung_up) {
    hung_up = true;
    farewell_began_ = now;
  }
  if (auto violation = MoveToServer(scratch, now)) return violation;
  MoveToClient(scratch);
  return std::nullopt;
}

// One piece each time is fair to the others; but the end of a side is no event a second time, so
// all that it has sent is read then. A client that has gone may have said something before: detach.
std::optional<FrameGuard::Violation> Connection::MoveToServer(std::span<char> scratch, Time now) {
  if (server_hung_up_) return std::nullopt;
  do {
    if (!to_server_.empty()) (void)Send(server_.get(), std::exchange(to_server_, {}), to_server_);
    if (!to_server_.empty()) return std::nullopt;
    if (client_ended_) break;
    const Received received = Receive(client_.get(), scratch);
    if (received.ended) {
      client_ended_ = true;
      // gRPC takes it as the end of the connection, and closes its own end.
      (void)::shutdown(server_.get(), SHUT_WR);
    }
    moved_ += received.bytes.size();
    if (auto violation = guard_.FromClient(received.bytes, now)) return violation;
    (void)Send(server_.get(), received.bytes, to_server_);
  } while (client_hung_up_);
  if (client_hung_up_) finished_ = true;
  return std::nullopt;
}

void Connection::MoveToClient(std::span<char> scratch) {
  if (client_hung_up_) return;
  do {
    if (!to_client_.empty() && !Send(client_.get(), std::exchange(to_client_, {}), to_client_)) {
      return;  // epoll tells of the client's end
    }
    if (!to_client_.empty()) return;
    const Received received = Receive(server_.get(), scratch);
    if (received.ended) finished_ = true;
    if (received.bytes.empty()) return;
    moved_ += received.bytes.size();
    guard_.ToClient(received.bytes);
    (void)Send(client_.get(), received.bytes, to_client_);
  } while (server_hung_up_);
}

void Connection::Drain(std::span<char> scratch) {
  if (turned_away()) return;
  server_hung_up_ = true;
  MoveToClient(scratch);
}

void Connection::TurnAway(http2::ErrorCode code, std::string_view text, Time now) {
  server_.Reset();
  to_server_ = {};
  farewell_began_ = now;
  if (to_client_.empty() && guard_.CanInsertToClient()) {
    (void)Send(client_.get(), http2::Goaway(guard_.LastStream(), code, text), to_client_);
  }
  to_client_ = {};  // the client does not read: it may be closed without a word
}

// Closing at once would make the client's next write fail before it has read why.
void Connection::Discard(std::span<char> scratch) {
  const Received received = Receive(client_.get(), scratch);
  discarded_ += received.bytes.size();
  if (received.ended || discarded_ > kMaxDiscarded) finished_ = true;
}

std::optional<uint32_t> Connection::Wanted(Side side) const {
  if (turned_away()) return side == Side::kClient ? std::optional<uint32_t>(EPOLLIN) : std::nullopt;
  if (side == Side::kClient ? client_hung_up_ : server_hung_up_) return std::nullopt;
  const bool of_client = side == Side::kClient;
  const bool reads = of_client ? to_server_.empty() && !client_ended_ && !server_hung_up_
                               : to_client_.empty() && !client_hung_up_;
  const bool writes = !(of_client ? to_client_ : to_server_).empty();
  return (reads ? uint32_t{EPOLLIN} : 0) | (writes ? uint32_t{EPOLLOUT} : 0);
}

std::optional<Connection::Time> Connection::deadline() const {
  if (turned_away() || client_hung_up_ || server_hung_up_) return farewell_began_ + kFarewellTime;
  if (!guard_.Greeted()) return began_ + handshake_;
  return std::nullopt;
}

}  // namespace holdfast::agent::api
