// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/client/client_call.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "holdfast/base/clock.h"
#include "holdfast/base/strings.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::chrono::milliseconds kFirstPause{2};
constexpr std::chrono::milliseconds kLongestPause{50};

// Nobody there, or gone while we spoke: its successor will answer.
bool IsTransient(const Error& error) {
  if (error.code() == Code::kUnavailable) return true;
  return error.sys_errno() == ENOENT;  // no socket, no run directory yet
}

// `call(left)` until somebody answers, or for `limit`.
template <class F>
Result<Message> CallUntilAnswered(const Peers& peers, std::chrono::milliseconds limit,
                                  const F& call) {
  const SystemClock clock;
  const BootTime deadline = clock.Boot() + limit;
  std::chrono::milliseconds pause = kFirstPause;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock.Boot());
    auto answer = call(std::max(left, kFirstPause));
    if (answer || !IsTransient(answer.error())) return answer;
    if (clock.Boot() + pause >= deadline) {
      return Unavailable(StrCat("keeper in ", peers.run_dir(), ": ", answer.error().message()));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

// The connection on which the requests were sent.
Result<Peers::Connection> Send(Peers& peers, Peer peer, std::span<const Request> requests,
                               std::chrono::milliseconds limit) {
  ASSIGN_OR_RETURN(Peers::Connection connection, peers.Connect(peer));
  RETURN_IF_ERROR(SendRequests(connection.socket.get(), requests, limit));
  return connection;
}

// The answer to what was sent on `connection`, which serves the next call after a good one: then nothing is left to come.
Result<Message> Receive(Peers& peers, Peer peer, Peers::Connection connection,
                        std::chrono::milliseconds limit) {
  auto answer = ReceiveAnswer(connection.socket.get(), connection.path, limit);
  if (answer) peers.Keep(peer, std::move(connection));
  return answer;
}

}  // namespace

KeeperCall::KeeperCall(std::shared_ptr<Peers> peers, Peer peer, std::vector<Request> requests,
                       std::chrono::milliseconds limit)
    : peers_(std::move(peers)), peer_(peer), requests_(std::move(requests)), limit_(limit) {
  auto sent = Send(*peers_, peer_, requests_, limit_);
  if (sent) sent_ = std::move(*sent);
}

Result<Message> KeeperCall::Await() {
  if (sent_) {
    auto answer = Receive(*peers_, peer_, *std::exchange(sent_, std::nullopt), limit_);
    if (answer || !IsTransient(answer.error())) return answer;
  }
  return CallKeeper(*peers_, peer_, requests_, limit_);
}

Result<Message> CallKeeper(Peers& peers, Peer peer, MessageType type, std::string_view payload,
                           std::span<const int> fds, std::chrono::milliseconds limit) {
  const Request request{type, std::string(payload), {fds.begin(), fds.end()}};
  return CallKeeper(peers, peer, std::span(&request, 1), limit);
}

Result<Message> CallKeeper(Peers& peers, Peer peer, std::span<const Request> requests,
                           std::chrono::milliseconds limit) {
  return CallUntilAnswered(peers, limit, [&](auto left) -> Result<Message> {
    ASSIGN_OR_RETURN(Peers::Connection connection, Send(peers, peer, requests, left));
    return Receive(peers, peer, std::move(connection), left);
  });
}

Result<Message> CallKeeperOnce(Peers& peers, Peer peer, const Request& request,
                               const Request& again, std::chrono::milliseconds limit) {
  const Request* next = &request;
  return CallUntilAnswered(peers, limit, [&](auto left) -> Result<Message> {
    ASSIGN_OR_RETURN(Peers::Connection connection, Send(peers, peer, std::span(next, 1), left));
    next = &again;
    return Receive(peers, peer, std::move(connection), left);
  });
}

Result<std::vector<std::string>> ListKeysOf(Peers& peers, Peer peer, const std::string& prefix) {
  ASSIGN_OR_RETURN(Message list, CallKeeper(peers, peer, MessageType::kListKeys,
                                            Encoder().Text(prefix).Take(), {}));
  if (list.fds.empty()) return Internal("list keys: answer without a list");
  return ListFromMemfd(list.fds.front().get());
}

Result<void> UpgradeProcess(Peers& peers, Peer peer, int binary) {
  const int fds[] = {binary};
  ASSIGN_OR_RETURN(const Message before, CallKeeper(peers, peer, MessageType::kUpgrade, {}, fds));
  const uint32_t count = Decoder(before.payload).U32();
  const SystemClock clock;
  const BootTime deadline = clock.Boot() + kCallLimit;
  while (clock.Boot() < deadline) {
    ASSIGN_OR_RETURN(const Message now, CallKeeper(peers, peer, MessageType::kPing, {}, {}));
    if (Decoder(now.payload).U32() > count) return {};
    std::this_thread::sleep_for(kFirstPause);
  }
  return Error(Code::kDeadlineExceeded, StrCat("upgrade keeper in ", peers.run_dir(),
                                               ": the process still runs its old program"));
}

}  // namespace holdfast::runtime::keeper
