// SPDX-License-Identifier: Apache-2.0
#include "netproxy/nft/watch.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::nft {
namespace {

constexpr size_t kReceiveBytes = 64 * 1024;
// The first attribute of each kind of object is the name of its table.
static_assert(NFTA_TABLE_NAME == 1 && NFTA_CHAIN_TABLE == 1 && NFTA_RULE_TABLE == 1 &&
              NFTA_SET_TABLE == 1 && NFTA_SET_ELEM_LIST_TABLE == 1);

// One datagram holds the changes of one sender: the first message's nlmsg_pid tells.
Result<void> IgnoreSender(int fd, uint32_t port) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(nlmsghdr, nlmsg_pid)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(port), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
  };
  const sock_fprog program{sizeof code / sizeof code[0], code};
  if (::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
    return Error::FromErrno(errno, "filter netfilter notifications");
  }
  return {};
}

// The text of the first attribute; every kind of object is of some table.
std::string_view TableOf(std::string_view message) {
  constexpr size_t kHead = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(nfgenmsg));
  if (message.size() < kHead + sizeof(nlattr)) return "";
  nlattr head;
  std::memcpy(&head, message.data() + kHead, sizeof head);
  if (head.nla_type != NFTA_TABLE_NAME || head.nla_len <= sizeof head ||
      kHead + head.nla_len > message.size()) {
    return "";
  }
  return message.substr(kHead + sizeof head, head.nla_len - sizeof head - 1);
}

bool Touches(std::string_view datagram, const std::string& table) {
  while (datagram.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, datagram.data(), sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > datagram.size()) return false;
    const bool generation = (header.nlmsg_type & 0xff) == NFT_MSG_NEWGEN;
    if (!generation && TableOf(datagram.substr(0, header.nlmsg_len)) == table) return true;
    datagram.remove_prefix(std::min<size_t>(NLMSG_ALIGN(header.nlmsg_len), datagram.size()));
  }
  return false;
}

}  // namespace

Result<NftWatch> NftWatch::Open(const std::string& table, uint32_t own_port, int receive_bytes) {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER));
  if (!fd) return Error::FromErrno(errno, "open netfilter netlink");
  RETURN_IF_ERROR(IgnoreSender(fd.get(), own_port));
  if (receive_bytes != 0) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  }
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  const int group = NFNLGRP_NFTABLES;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0) {
    return Error::FromErrno(errno, "listen for netfilter notifications");
  }
  return NftWatch(table, std::move(fd));
}

Result<bool> NftWatch::Drain() {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReceiveBytes);
  bool touched = false;
  for (;;) {
    const ssize_t n = ::recv(fd_.get(), buffer.get(), kReceiveBytes, 0);
    if (n > 0) {
      touched = touched || Touches({buffer.get(), static_cast<size_t>(n)}, table_);
    } else if (n < 0 && errno == ENOBUFS) {
      touched = true;
    } else if (n < 0 && errno == EAGAIN) {
      return touched;
    } else if (n < 0 && errno != EINTR) {
      return Error::FromErrno(errno, "receive netfilter notifications");
    }
  }
}

}  // namespace holdfast::netproxy::nft
