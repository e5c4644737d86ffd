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
#include <string_view>

#include "holdfast/sys/notifications.h"

namespace holdfast::netproxy::nft {
namespace {

// The first attribute of each kind of object is the name of its table.
static_assert(NFTA_TABLE_NAME == 1 && NFTA_CHAIN_TABLE == 1 && NFTA_RULE_TABLE == 1 &&
              NFTA_SET_TABLE == 1 && NFTA_SET_ELEM_LIST_TABLE == 1);
constexpr size_t kHead = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(nfgenmsg));

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

// The text of one attribute.
std::string_view Attribute(std::string_view message, uint16_t type) {
  message.remove_prefix(std::min(message.size(), kHead));
  while (message.size() >= sizeof(nlattr)) {
    nlattr head;
    std::memcpy(&head, message.data(), sizeof head);
    if (head.nla_len <= sizeof head || head.nla_len > message.size()) return "";
    if ((head.nla_type & NLA_TYPE_MASK) == type) {
      return message.substr(sizeof head, head.nla_len - sizeof head - 1);
    }
    message.remove_prefix(std::min<size_t>(NLA_ALIGN(head.nla_len), message.size()));
  }
  return "";
}

}  // namespace

NftTouch TouchOf(std::string_view message, uint16_t type) {
  NftTouch touch;
  touch.message = static_cast<uint8_t>(type & 0xff);
  if (touch.message == NFT_MSG_NEWGEN || message.size() < kHead) return touch;  // of no table
  touch.family = static_cast<uint8_t>(message[NLMSG_HDRLEN]);
  touch.table = Attribute(message, NFTA_TABLE_NAME);
  if (touch.message == NFT_MSG_NEWCHAIN || touch.message == NFT_MSG_DELCHAIN) {
    touch.chain = Attribute(message, NFTA_CHAIN_NAME);
  } else if (touch.message == NFT_MSG_NEWRULE || touch.message == NFT_MSG_DELRULE) {
    touch.chain = Attribute(message, NFTA_RULE_CHAIN);
  }
  return touch;
}

Result<NftWatch> NftWatch::Open(const std::string& table, uint32_t own_port, int receive_bytes) {
  const auto is_news = [table](const NftTouch& touch) { return touch.table == table; };
  ASSIGN_OR_RETURN(NftWatch watch, Open(is_news, receive_bytes));
  RETURN_IF_ERROR(watch.HearAllBut(own_port));
  return watch;
}

Result<NftWatch> NftWatch::Open(IsNews is_news, int receive_bytes) {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER));
  if (!fd) return Error::FromErrno(errno, "open netfilter netlink");
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
  return NftWatch(std::move(is_news), std::move(fd));
}

Result<void> NftWatch::HearAllBut(uint32_t port) const {
  if (port != 0) return IgnoreSender(fd_.get(), port);
  const int unused = 0;
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused) != 0 &&
      errno != ENOENT) {
    return Error::FromErrno(errno, "hear all netfilter notifications");
  }
  return {};
}

Result<bool> NftWatch::Drain() {
  const auto is_news = [this](uint16_t type, std::string_view message) {
    return is_news_(TouchOf(message, type));
  };
  return sys::DrainNotifications(fd_.get(), is_news, "netfilter notifications");
}

}  // namespace holdfast::netproxy::nft
