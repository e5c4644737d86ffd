// SPDX-License-Identifier: Apache-2.0
// Calls to a keeper process, made again and again while it is being restarted.
// Thread-safe, but a KeeperCall belongs to one thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "runtime/keeper/client/peers.h"
#include "runtime/keeper/common/wire.h"

namespace holdfast::runtime::keeper {

inline constexpr std::chrono::seconds kCallLimit{10};

// A call in two halves, so that the caller does something else while the keeper works: sent by the
// constructor, answered by Await(). What the requests' `fds` name stays borrowed until then.
class KeeperCall {
 public:
  KeeperCall(std::shared_ptr<Peers> peers, Peer peer, std::vector<Request> requests,
             std::chrono::milliseconds limit = kCallLimit);
  // Once. As CallKeeper: repeats the requests while nobody answers.
  Result<Message> Await();

 private:
  std::shared_ptr<Peers> peers_;
  Peer peer_;
  std::vector<Request> requests_;
  std::chrono::milliseconds limit_;
  std::optional<Peers::Connection> sent_;  // none: could not be sent, Await() tries again
};

// Repeats the requests (see SendRequests) while nobody answers (kUnavailable) until `limit`: every message
// sent this way may arrive twice. An answer of type kError becomes the Error.
Result<Message> CallKeeper(Peers& peers, Peer peer, std::span<const Request> requests,
                           std::chrono::milliseconds limit = kCallLimit);
Result<Message> CallKeeper(Peers& peers, Peer peer, MessageType type, std::string_view payload,
                           std::span<const int> fds, std::chrono::milliseconds limit = kCallLimit);
// For a request that may not arrive twice: once it was sent, whoever answers next is asked `again`.
Result<Message> CallKeeperOnce(Peers& peers, Peer peer, const Request& request,
                               const Request& again, std::chrono::milliseconds limit);

Result<std::vector<std::string>> ListKeysOf(Peers& peers, Peer peer, const std::string& prefix);

// Sends the new binary and waits until the process answers as one that was upgraded once more.
Result<void> UpgradeProcess(Peers& peers, Peer peer, int binary);

}  // namespace holdfast::runtime::keeper
