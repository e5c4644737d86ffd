// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "holdfast/base/strings.h"

namespace holdfast::sys {
namespace {

Result<sockaddr_un> Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return InvalidArgument(
        StrCat("socket ", path, ": path is longer than ", sizeof address.sun_path - 1, " bytes"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<UniqueFd> NewSocket(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return Error::FromErrno(errno, StrCat("socket for ", path));
  return fd;
}

void TakeFds(msghdr& message, std::vector<UniqueFd>& out) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      out.emplace_back(fd);
    }
  }
}

}  // namespace

Result<UniqueFd> ListenSeqpacket(const std::string& path, mode_t mode) {
  if (auto peer = ConnectSeqpacket(path); peer) {
    return Conflict(StrCat("listen on ", path, ": another process answers there"));
  }
  struct stat st{};
  if (::lstat(path.c_str(), &st) == 0) {
    if (!S_ISSOCK(st.st_mode))
      return Conflict(StrCat("listen on ", path, ": exists and is no socket"));
    ::unlink(path.c_str());
  }
  ASSIGN_OR_RETURN(sockaddr_un address, Address(path));
  ASSIGN_OR_RETURN(UniqueFd fd, NewSocket(path));
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return Error::FromErrno(errno, StrCat("bind ", path));
  }
  if (::chmod(path.c_str(), mode) != 0) return Error::FromErrno(errno, StrCat("chmod ", path));
  if (::listen(fd.get(), 128) != 0) return Error::FromErrno(errno, StrCat("listen ", path));
  return fd;
}

Result<UniqueFd> ConnectSeqpacket(const std::string& path) {
  ASSIGN_OR_RETURN(sockaddr_un address, Address(path));
  ASSIGN_OR_RETURN(UniqueFd fd, NewSocket(path));
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return Error::FromErrno(errno, StrCat("connect ", path));
  }
  return fd;
}

Result<std::pair<UniqueFd, UniqueFd>> SeqpacketPair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return Error::FromErrno(errno, "socketpair");
  }
  return std::pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

Result<UniqueFd> Accept(int listener) {
  for (;;) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) return fd;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return UniqueFd();
    return Error::FromErrno(errno, "accept");
  }
}

Result<void> SendPacket(int socket, std::string_view data, std::span<const int> fds) {
  if (fds.size() > kMaxPacketFds) {
    return InvalidArgument(
        StrCat("send: ", fds.size(), " descriptors, at most ", kMaxPacketFds, " fit"));
  }
  iovec iov{const_cast<char*>(data.data()), data.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPacketFds)];
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    std::memset(control, 0, sizeof control);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  for (;;) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return {};
    if (errno != EINTR) return Error::FromErrno(errno, StrCat("send ", data.size(), " bytes"));
  }
}

Result<Packet> ReceivePacket(int socket) {
  Packet packet;
  // Not a string of that size: only what arrives is touched, and each launch receives six packets.
  char data[kMaxPacketBytes];
  iovec iov{data, sizeof data};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPacketFds)];
  msghdr message{};
  const auto receive = [&](int flags) {
    message = {};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n = 0;
    do {
      n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
    } while (n < 0 && errno == EINTR);
    return n;
  };
  ssize_t n = receive(0);
  // The peer's end may be told before what it had sent: always if it left something unread, and now and then when it sent
  // and ended just between the kernel's look at the queue and that at the peer (unix_dgram_recvmsg).
  if (n == 0 || (n < 0 && errno == ECONNRESET)) n = std::max<ssize_t>(receive(MSG_DONTWAIT), 0);
  if (n < 0) return Error::FromErrno(errno, "receive");
  TakeFds(message, packet.fds);
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return InvalidArgument("receive: packet or its descriptors were cut off");
  }
  packet.data.assign(data, static_cast<size_t>(n));
  return packet;
}

Result<PeerCredentials> GetPeerCredentials(int socket) {
  ucred cred{};
  socklen_t size = sizeof cred;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0) {
    return Error::FromErrno(errno, "getsockopt SO_PEERCRED");
  }
  return PeerCredentials{cred.pid, cred.uid, cred.gid};
}

}  // namespace holdfast::sys
