// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/rtnl_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace holdfast::sys {
namespace {

constexpr size_t kReceiveBytes = 32 * 1024;

bool IsNews(const nlmsghdr& header, std::string_view message) {
  if (header.nlmsg_type == RTM_NEWADDR || header.nlmsg_type == RTM_DELADDR) return true;
  if (header.nlmsg_type != RTM_NEWROUTE && header.nlmsg_type != RTM_DELROUTE) return false;
  rtmsg route;
  if (message.size() < NLMSG_HDRLEN + sizeof route) return false;
  std::memcpy(&route, message.data() + NLMSG_HDRLEN, sizeof route);
  return route.rtm_dst_len == 0;
}

bool HasNews(std::string_view datagram) {
  while (datagram.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, datagram.data(), sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > datagram.size()) return false;
    if (IsNews(header, datagram.substr(0, header.nlmsg_len))) return true;
    datagram.remove_prefix(std::min<size_t>(NLMSG_ALIGN(header.nlmsg_len), datagram.size()));
  }
  return false;
}

}  // namespace

Result<RtnlWatch> RtnlWatch::Open() {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!fd) return Error::FromErrno(errno, "open route netlink");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups =
      RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return Error::FromErrno(errno, "listen for address notifications");
  }
  return RtnlWatch(std::move(fd));
}

Result<bool> RtnlWatch::Drain() {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReceiveBytes);
  bool news = false;
  for (;;) {
    const ssize_t n = ::recv(fd_.get(), buffer.get(), kReceiveBytes, 0);
    if (n > 0) {
      news = news || HasNews({buffer.get(), static_cast<size_t>(n)});
    } else if (n < 0 && errno == ENOBUFS) {
      news = true;
    } else if (n < 0 && errno == EAGAIN) {
      return news;
    } else if (n < 0 && errno != EINTR) {
      return Error::FromErrno(errno, "receive address notifications");
    }
  }
}

}  // namespace holdfast::sys
