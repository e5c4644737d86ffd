// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/rtnl_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "holdfast/sys/notifications.h"

namespace holdfast::sys {
namespace {

bool ConcernsTheNode(uint16_t type, std::string_view message) {
  if (type == RTM_NEWADDR || type == RTM_DELADDR) return true;
  if (type != RTM_NEWROUTE && type != RTM_DELROUTE) return false;
  rtmsg route;
  if (message.size() < NLMSG_HDRLEN + sizeof route) return false;
  std::memcpy(&route, message.data() + NLMSG_HDRLEN, sizeof route);
  return route.rtm_dst_len == 0;
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
  return DrainNotifications(fd_.get(), ConcernsTheNode, "address notifications");
}

}  // namespace holdfast::sys
