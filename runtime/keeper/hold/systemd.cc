// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/hold/systemd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr int kListenFdsStart = 3;

std::string TakeVariable(const char* name) {
  const char* value = std::getenv(name);
  std::string out = value != nullptr ? value : "";
  ::unsetenv(name);
  return out;
}

}  // namespace

Notifier Notifier::FromEnvironment() {
  Notifier notifier;
  notifier.socket_path_ = TakeVariable("NOTIFY_SOCKET");
  const std::string period = TakeVariable("WATCHDOG_USEC");
  const std::string pid = TakeVariable("WATCHDOG_PID");
  const bool for_us = pid.empty() || std::strtol(pid.c_str(), nullptr, 10) == ::getpid();
  const long long microseconds = std::strtoll(period.c_str(), nullptr, 10);
  if (for_us && microseconds >= 2000) {
    notifier.watchdog_period_ = std::chrono::milliseconds(microseconds / 2000);
  }
  return notifier;
}

void Notifier::ToEnvironment() const {
  if (!socket_path_.empty()) ::setenv("NOTIFY_SOCKET", socket_path_.c_str(), 1);
  if (!watchdog_period_) return;
  ::setenv("WATCHDOG_USEC", StrCat(watchdog_period_->count() * 2000).c_str(), 1);
}

void Notifier::Ready(const std::string& status) const {
  (void)Send(StrCat("READY=1\nSTATUS=", status, "\n"), {});
}

void Notifier::Watchdog() const { (void)Send("WATCHDOG=1\n", {}); }

bool Notifier::StoreFds(const std::string& key, std::span<const int> fds) const {
  return Send(StrCat("FDSTORE=1\nFDPOLL=0\nFDNAME=", key, "\n"), fds);
}

bool Notifier::RemoveFds(const std::string& key) const {
  return Send(StrCat("FDSTOREREMOVE=1\nFDNAME=", key, "\n"), {});
}

bool Notifier::Send(const std::string& text, std::span<const int> fds) const {
  sockaddr_un address{};
  if (socket_path_.empty() || socket_path_.size() >= sizeof address.sun_path) return true;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_path_.data(), socket_path_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = 0;  // abstract name
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return false;

  iovec iov{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_path_.size());
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  std::string control(CMSG_SPACE(fds.size_bytes()), '\0');
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  if (::sendmsg(socket.get(), &message, MSG_NOSIGNAL) >= 0) return true;
  // A manager that does not listen is no reason to stop keeping descriptors. One that is behind
  // (a burst longer than its queue) is.
  return errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM && errno != EINTR &&
         errno != ETOOMANYREFS;
}

std::vector<std::pair<std::string, UniqueFd>> TakeListenFds() {
  std::vector<std::pair<std::string, UniqueFd>> out;
  const std::string pid = TakeVariable("LISTEN_PID");
  const std::string count_text = TakeVariable("LISTEN_FDS");
  std::string names = TakeVariable("LISTEN_FDNAMES");
  if (std::strtol(pid.c_str(), nullptr, 10) != ::getpid()) return out;
  const long count = std::strtol(count_text.c_str(), nullptr, 10);
  for (int fd = kListenFdsStart; fd < kListenFdsStart + count; ++fd) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    const size_t colon = names.find(':');
    out.emplace_back(names.substr(0, colon), UniqueFd(fd));
    names = colon == std::string::npos ? "" : names.substr(colon + 1);
  }
  return out;
}

}  // namespace holdfast::runtime::keeper
