// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/holder_link.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "holdfast/sys/socket.h"

namespace holdfast::runtime::keeper {

void HolderLink::Put(const std::string& key, std::span<const int> fds) {
  Send(MessageType::kPutQuiet, Encoder().Text(key).Take(), fds);
}

void HolderLink::Drop(const std::string& key) {
  Send(MessageType::kDropQuiet, Encoder().Text(key).Take(), {});
}

void HolderLink::Rename(const std::string& prefix, const std::string& other) {
  Send(MessageType::kRenameQuiet, Encoder().Text(prefix).Text(other).Take(), {});
}

Result<void> HolderLink::Follow(Loop& loop, const std::string& role) {
  Send(MessageType::kReady, Encoder().Text(role).Take(), {});
  holder_ = OpenHolder();
  if (!holder_) return {};
  return loop.Add(holder_.get(), EPOLLIN, [this, &loop](uint32_t) {
    loop.Remove(holder_.get());
    holder_.Reset();
    socket_.Reset();
  });
}

PidFd HolderLink::OpenHolder() {
  const pid_t parent = ::getppid();
  PidFd holder(static_cast<int>(::syscall(SYS_pidfd_open, parent, 0)));
  if (!holder || !Connect()) return {};
  const auto peer = sys::GetPeerCredentials(socket_.get());
  // Another pid: this process was adopted by somebody else, its holder is gone.
  if (!peer || peer->pid != parent) return {};
  return holder;
}

bool HolderLink::Connect() {
  if (socket_) return true;
  auto socket = sys::ConnectSeqpacket(path_);
  if (!socket || ::fcntl(socket->get(), F_SETFL, O_NONBLOCK) != 0) return false;
  if (place_) {
    socket = place_(std::move(*socket));
    if (!socket) return false;
  }
  socket_ = std::move(*socket);
  return true;
}

void HolderLink::Send(MessageType type, const std::string& payload, std::span<const int> fds) {
  // The second attempt meets the holder's successor.
  for (int attempt = 0; attempt < 2 && Connect(); ++attempt) {
    if (SendMessage(socket_.get(), type, payload, fds)) return;
    socket_.Reset();
  }
}

}  // namespace holdfast::runtime::keeper
