// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/client/client_call.h"

#include <fcntl.h>

#include <algorithm>
#include <thread>

#include "holdfast/base/clock.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/keeper/common/paths.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::chrono::milliseconds kFirstPause{2};
constexpr std::chrono::milliseconds kLongestPause{50};

Result<std::string> SocketOf(const std::string& run_dir, Peer peer) {
  if (peer == Peer::kHolder) return StrCat(run_dir, "/", kHolderSocket);
  if (peer == Peer::kLogger) return StrCat(run_dir, "/", kLoggerSocket);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(AT_FDCWD, run_dir));
  unsigned newest = 0;
  for (const std::string& name : names) newest = std::max(newest, GenerationOfSocketName(name));
  if (newest == 0) return Unavailable(StrCat("no launcher in ", run_dir));
  return StrCat(run_dir, "/", LauncherSocketName(newest));
}

// Nobody there, or gone while we spoke: its successor will answer.
bool IsTransient(const Error& error) {
  if (error.code() == Code::kUnavailable) return true;
  return error.sys_errno() == ENOENT;  // no socket, no run directory yet
}

// `call(left)` until somebody answers, or for `limit`.
template <class F>
Result<Message> CallUntilAnswered(const std::string& run_dir, std::chrono::milliseconds limit,
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
      return Unavailable(StrCat("keeper in ", run_dir, ": ", answer.error().message()));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace

KeeperCall::KeeperCall(std::string run_dir, Peer peer, std::vector<Request> requests,
                       std::chrono::milliseconds limit)
    : run_dir_(std::move(run_dir)), peer_(peer), requests_(std::move(requests)), limit_(limit) {
  auto path = SocketOf(run_dir_, peer_);
  if (!path) return;
  path_ = std::move(*path);
  auto sent = SendRequests(path_, requests_, limit_);
  if (sent) socket_ = std::move(*sent);
}

Result<Message> KeeperCall::Await() {
  if (socket_) {
    auto answer = ReceiveAnswer(socket_.get(), path_, limit_);
    socket_.Reset();
    if (answer || !IsTransient(answer.error())) return answer;
  }
  return CallKeeper(run_dir_, peer_, requests_, limit_);
}

Result<Message> CallKeeper(const std::string& run_dir, Peer peer, MessageType type,
                           std::string_view payload, std::span<const int> fds,
                           std::chrono::milliseconds limit) {
  const Request request{type, std::string(payload), {fds.begin(), fds.end()}};
  return CallKeeper(run_dir, peer, std::span(&request, 1), limit);
}

Result<Message> CallKeeper(const std::string& run_dir, Peer peer, std::span<const Request> requests,
                           std::chrono::milliseconds limit) {
  return CallUntilAnswered(run_dir, limit, [&](auto left) -> Result<Message> {
    ASSIGN_OR_RETURN(const std::string path, SocketOf(run_dir, peer));
    return Call(path, requests, left);
  });
}

Result<Message> CallKeeperOnce(const std::string& run_dir, Peer peer, const Request& request,
                               const Request& again, std::chrono::milliseconds limit) {
  const Request* next = &request;
  return CallUntilAnswered(run_dir, limit, [&](auto left) -> Result<Message> {
    ASSIGN_OR_RETURN(const std::string path, SocketOf(run_dir, peer));
    ASSIGN_OR_RETURN(const UniqueFd socket, SendRequests(path, std::span(next, 1), left));
    next = &again;
    return ReceiveAnswer(socket.get(), path, left);
  });
}

Result<std::vector<std::string>> ListKeysOf(const std::string& run_dir, Peer peer,
                                            const std::string& prefix) {
  ASSIGN_OR_RETURN(Message list, CallKeeper(run_dir, peer, MessageType::kListKeys,
                                            Encoder().Text(prefix).Take(), {}));
  if (list.fds.empty()) return Internal("list keys: answer without a list");
  return ListFromMemfd(list.fds.front().get());
}

Result<void> UpgradeProcess(const std::string& run_dir, Peer peer, int binary) {
  const int fds[] = {binary};
  ASSIGN_OR_RETURN(const Message before, CallKeeper(run_dir, peer, MessageType::kUpgrade, {}, fds));
  const uint32_t count = Decoder(before.payload).U32();
  const SystemClock clock;
  const BootTime deadline = clock.Boot() + kCallLimit;
  while (clock.Boot() < deadline) {
    ASSIGN_OR_RETURN(const Message now, CallKeeper(run_dir, peer, MessageType::kPing, {}, {}));
    if (Decoder(now.payload).U32() > count) return {};
    std::this_thread::sleep_for(kFirstPause);
  }
  return Error(Code::kDeadlineExceeded,
               StrCat("upgrade keeper in ", run_dir, ": the process still runs its old program"));
}

}  // namespace holdfast::runtime::keeper
