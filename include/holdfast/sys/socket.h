// SPDX-License-Identifier: Apache-2.0
// SOCK_SEQPACKET unix sockets that carry one message and up to 253 descriptors per packet
// (SCM_MAX_FD). A packet above about 200 KiB is EMSGSIZE: large payloads travel as sealed memfds.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

inline constexpr size_t kMaxPacketFds = 253;
inline constexpr size_t kMaxPacketBytes = 64 * 1024;

struct Packet {
  std::string data;
  std::vector<UniqueFd> fds;
};

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

// Replaces a dead socket file; kConflict while somebody answers on it. `mode` is set before listen.
Result<UniqueFd> ListenSeqpacket(const std::string& path, mode_t mode);
Result<UniqueFd> ConnectSeqpacket(const std::string& path);
Result<std::pair<UniqueFd, UniqueFd>> SeqpacketPair();
// Non-blocking accept; an invalid fd when nobody waits.
Result<UniqueFd> Accept(int listener);

// One packet. Retries EINTR; EAGAIN and EPIPE are errors (kUnavailable).
Result<void> SendPacket(int socket, std::string_view data, std::span<const int> fds = {});
// An empty packet with no fds means end-of-file, and nothing that was sent before it is left; also when the peer ended with
// something of ours unread. Received fds are O_CLOEXEC.
Result<Packet> ReceivePacket(int socket);
Result<PeerCredentials> GetPeerCredentials(int socket);

}  // namespace holdfast::sys
