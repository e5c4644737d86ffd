// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <vector>

#include "holdfast/sys/socket.h"

namespace holdfast::runtime::keeper {

PacketServer::PacketServer(Loop& loop, UniqueFd listener, Handler handler)
    : loop_(loop), listener_(std::move(listener)), handler_(std::move(handler)) {}

PacketServer::~PacketServer() {
  if (listener_) loop_.Remove(listener_.get());
  for (const auto& [id, fd] : connections_) loop_.Remove(fd.get());
}

Result<void> PacketServer::Start() {
  if (::fcntl(listener_.get(), F_SETFL, O_NONBLOCK) != 0) {
    return Error::FromErrno(errno, "fcntl O_NONBLOCK");
  }
  return loop_.Add(listener_.get(), EPOLLIN, [this](uint32_t) { AcceptAll(); });
}

void PacketServer::AcceptAll() {
  for (;;) {
    auto fd = sys::Accept(listener_.get());
    if (!fd || !fd->valid()) return;
    const auto peer = sys::GetPeerCredentials(fd->get());
    if (!peer || peer->uid != ::geteuid()) continue;
    const ConnectionId id = next_id_++;
    if (!loop_.Add(fd->get(), EPOLLIN, [this, id](uint32_t) { Receive(id); })) continue;
    connections_[id] = std::move(*fd);
  }
}

void PacketServer::Receive(ConnectionId id) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  auto message = ReceiveMessage(it->second.get());
  if (message) {
    if (!IsQuiet(message->type)) HearQuietOfOthers(id);
    handler_(id, std::move(*message));
    return;
  }
  if (message.error().sys_errno() == EAGAIN) return;
  if (message.error().code() == Code::kUnsupported) Fail(id, message.error());
  Close(id);
}

void PacketServer::HearQuietOfOthers(ConnectionId asking) {
  AcceptAll();
  std::vector<ConnectionId> ids;
  ids.reserve(connections_.size());
  for (const auto& [id, fd] : connections_) {
    if (id != asking) ids.push_back(id);  // its own that is left comes after what it asks
  }
  for (const ConnectionId id : ids) HearQuietOf(id);
}

void PacketServer::HearQuietOf(ConnectionId id) {
  for (;;) {
    const auto it = connections_.find(id);
    if (it == connections_.end() || !QuietIsNext(it->second.get())) return;
    Receive(id);
  }
}

void PacketServer::Reply(ConnectionId id, MessageType type, std::string_view payload,
                         std::span<const int> fds) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  if (!SendMessage(it->second.get(), type, payload, fds)) Close(id);
}

void PacketServer::Fail(ConnectionId id, const Error& error) {
  Reply(id, MessageType::kError, EncodeError(error));
}

void PacketServer::Close(ConnectionId id) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  loop_.Remove(it->second.get());
  connections_.erase(it);
}

}  // namespace holdfast::runtime::keeper
