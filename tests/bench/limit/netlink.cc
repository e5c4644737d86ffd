// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/limit/netlink.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "holdfast/base/strings.h"
#include "tests/bench/measure.h"

namespace holdfast::bench {
namespace {

// False once the last request is answered.
bool More(const char* answers, int size, uint32_t last) {
  for (const auto* at = reinterpret_cast<const nlmsghdr*>(answers); mnl_nlmsg_ok(at, size);
       at = mnl_nlmsg_next(at, &size)) {
    if (at->nlmsg_type != NLMSG_ERROR) continue;
    const int error = -static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(at))->error;
    if (error != 0) Die(StrCat("netlink request ", at->nlmsg_seq, ": ", std::strerror(error)));
    if (at->nlmsg_seq == last) return false;
  }
  return true;
}

}  // namespace

UniqueFd OpenNetlink() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket) Die(StrCat("socket: ", std::strerror(errno)));
  return socket;
}

nlmsghdr* NetlinkBatch::Begin(uint16_t type, uint16_t flags) {
  char* at = bytes_.data();
  if (last_ != nullptr) at = reinterpret_cast<char*>(last_) + MNL_ALIGN(last_->nlmsg_len);
  if (at + 1024 > bytes_.data() + bytes_.size()) Die("too many netlink requests at once");
  last_ = mnl_nlmsg_put_header(at);
  last_->nlmsg_type = type;
  last_->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  last_->nlmsg_seq = ++count_;
  return last_;
}

void NetlinkBatch::Do(int socket) {
  last_->nlmsg_flags |= NLM_F_ACK;  // the others answer only when they are refused
  const char* end = reinterpret_cast<char*>(last_) + MNL_ALIGN(last_->nlmsg_len);
  const auto size = static_cast<size_t>(end - bytes_.data());
  if (::send(socket, bytes_.data(), size, 0) < 0) Die(StrCat("netlink: ", std::strerror(errno)));
  alignas(nlmsghdr) std::array<char, 16384> answers;
  int got = 0;
  do {
    got = static_cast<int>(::recv(socket, answers.data(), answers.size(), 0));
    if (got <= 0) Die(StrCat("netlink: ", std::strerror(errno)));
  } while (More(answers.data(), got, count_));
}

}  // namespace holdfast::bench
