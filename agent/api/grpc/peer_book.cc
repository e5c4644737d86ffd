// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/peer_book.h"

#include <fcntl.h>

#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

namespace holdfast::agent::api {
namespace {

constexpr std::string_view kPeerPrefix = "fd:";

}  // namespace

Result<UniqueFd> PeerBook::Enter(UniqueFd fd, access::Peer peer) {
  const std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(UniqueFd numbered, Numbered(std::move(fd)));
  peers_[numbered.get()] = std::move(peer);
  return numbered;
}

Result<UniqueFd> PeerBook::Numbered(UniqueFd fd) {
  UniqueFd numbered(::fcntl(fd.get(), F_DUPFD_CLOEXEC, next_number_));
  if (!numbered && errno == EINVAL) return fd;  // a limit on open files below our range
  if (!numbered) return Error::FromErrno(errno, "duplicate a connection");
  next_number_ = numbered.get() >= kLastNumber ? kFirstNumber : numbered.get() + 1;
  return numbered;
}

std::optional<access::Peer> PeerBook::Find(const std::string& grpc_peer) const {
  if (!grpc_peer.starts_with(kPeerPrefix)) return std::nullopt;
  int number = -1;
  const char* end = grpc_peer.data() + grpc_peer.size();
  const auto parsed = std::from_chars(grpc_peer.data() + kPeerPrefix.size(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(number);
  if (found == peers_.end()) return std::nullopt;
  return found->second;
}

}  // namespace holdfast::agent::api
