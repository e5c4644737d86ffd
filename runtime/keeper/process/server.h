// SPDX-License-Identifier: Apache-2.0
// PacketServer: accepts connections on a keeper socket and gives each message to one handler.
// Only processes of the same user id are heard (SO_PEERCRED). Single-threaded, on one Loop.
// A client that does not read its answers is disconnected: a send never blocks.
// Messages of one connection are handled in their order; and what is quiet (wire.h) before what is answered and was sent later,
// on whichever connection: who asks may know of it from the one that said it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/keeper/common/wire.h"
#include "runtime/keeper/process/loop.h"

namespace holdfast::runtime::keeper {

class PacketServer {
 public:
  using ConnectionId = uint64_t;
  // Answers now or later, by Reply or Fail with the id.
  using Handler = std::function<void(ConnectionId, Message)>;

  PacketServer(Loop& loop, UniqueFd listener, Handler handler);
  PacketServer(const PacketServer&) = delete;
  PacketServer& operator=(const PacketServer&) = delete;
  ~PacketServer();

  Result<void> Start();
  // A connection that is gone meanwhile is ignored.
  void Reply(ConnectionId id, MessageType type, std::string_view payload = {},
             std::span<const int> fds = {});
  void Fail(ConnectionId id, const Error& error);

  int listener() const { return listener_.get(); }

 private:
  void AcceptAll();
  void Receive(ConnectionId id);
  void HearQuietOfOthers(ConnectionId asking);
  void HearQuietOf(ConnectionId id);
  void Close(ConnectionId id);

  Loop& loop_;
  UniqueFd listener_;
  Handler handler_;
  std::unordered_map<ConnectionId, UniqueFd> connections_;
  ConnectionId next_id_ = 1;
};

}  // namespace holdfast::runtime::keeper
