// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/notifications.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "holdfast/base/strings.h"
#include "runtime/sys/netlink/nl_internal.h"

namespace holdfast::sys {
namespace {

bool HasNews(std::string_view datagram, const IsNews& is_news) {
  while (datagram.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, datagram.data(), sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > datagram.size()) return false;
    if (is_news(header.nlmsg_type, datagram.substr(0, header.nlmsg_len))) return true;
    datagram.remove_prefix(std::min<size_t>(NLMSG_ALIGN(header.nlmsg_len), datagram.size()));
  }
  return false;
}

}  // namespace

Result<bool> DrainNotifications(int fd, const IsNews& is_news, std::string_view what) {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReceiveBytes);
  bool news = false;
  for (;;) {
    const ssize_t n = ::recv(fd, buffer.get(), kReceiveBytes, 0);
    if (n > 0) {
      news = news || HasNews({buffer.get(), static_cast<size_t>(n)}, is_news);
    } else if (n < 0 && errno == ENOBUFS) {
      news = true;
    } else if (n < 0 && errno == EAGAIN) {
      return news;
    } else if (n < 0 && errno != EINTR) {
      return Error::FromErrno(errno, StrCat("receive ", what));
    }
  }
}

}  // namespace holdfast::sys
