// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/nfnl.h"

#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "holdfast/base/strings.h"
#include "runtime/sys/netlink/nl_internal.h"

namespace holdfast::sys {
namespace {

const nlmsghdr* HeaderOf(std::string_view message) {
  return reinterpret_cast<const nlmsghdr*>(message.data());
}

// A batch is one datagram: the send buffer must hold it whole.
void GrowSendBuffer(int fd, size_t bytes) {
  int have = 0;
  socklen_t size = sizeof have;
  ::getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &have, &size);
  const int want = static_cast<int>(std::min<size_t>(bytes * 2 + 4096, 1u << 30));
  if (have >= want) return;
  // Without CAP_NET_ADMIN in the first user namespace the limit of net.core.wmem_max holds; the
  // send itself then tells (EMSGSIZE).
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &want, sizeof want) != 0) {
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &want, sizeof want);
  }
}

}  // namespace

void NfSocket::SocketClose::operator()(mnl_socket* socket) const { ::mnl_socket_close(socket); }

Result<NfSocket> NfSocket::Open() {
  NfSocket out(::mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC));
  if (!out.socket_) return Error::FromErrno(errno, "open netfilter netlink");
  if (::mnl_socket_bind(out.socket_.get(), 0, MNL_SOCKET_AUTOPID) != 0) {
    return Error::FromErrno(errno, "bind netfilter netlink");
  }
  return out;
}

uint32_t NfSocket::port() const { return ::mnl_socket_get_portid(socket_.get()); }

Result<void> NfSocket::Send(std::string_view data) {
  GrowSendBuffer(::mnl_socket_get_fd(socket_.get()), data.size());
  if (::mnl_socket_sendto(socket_.get(), data.data(), data.size()) < 0) {
    return Error::FromErrno(errno, StrCat("send ", data.size(), " bytes to netfilter"));
  }
  return {};
}

// The kernel works within send(2): when it returns, all answers are queued.
Result<std::optional<NfSocket::Refusal>> NfSocket::Commit(std::string_view batch) {
  RETURN_IF_ERROR(Send(batch));
  std::optional<Refusal> refusal;
  bool answered = false;
  // Not a vector: clearing it would cost more than a small change does.
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReceiveBytes);
  for (;;) {
    const ssize_t n =
        ::recv(::mnl_socket_get_fd(socket_.get()), buffer.get(), kReceiveBytes, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return Error::FromErrno(errno, "receive the answer to a netfilter batch");
    int left = static_cast<int>(n);
    const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.get());
    for (; ::mnl_nlmsg_ok(header, left); header = ::mnl_nlmsg_next(header, &left)) {
      if (header->nlmsg_type != NLMSG_ERROR) continue;
      answered = true;
      const auto* error = static_cast<const nlmsgerr*>(::mnl_nlmsg_get_payload(header));
      if (error->error != 0 && !refusal) refusal = Refusal{header->nlmsg_seq, -error->error};
    }
  }
  if (!answered) return Internal("netfilter batch: no answer from the kernel");
  return refusal;
}

Result<void> NfSocket::Dump(std::string_view request,
                            const std::function<Result<void>(const nlmsghdr*)>& each) {
  RETURN_IF_ERROR(Send(request));
  const uint32_t sequence = HeaderOf(request)->nlmsg_seq;
  std::vector<char> buffer(kReceiveBytes);
  Result<void> outcome;
  bool disturbed = false;
  for (;;) {
    const ssize_t n = ::mnl_socket_recvfrom(socket_.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::FromErrno(errno, "receive a netfilter dump");
    int left = static_cast<int>(n);
    const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data());
    for (; ::mnl_nlmsg_ok(header, left); header = ::mnl_nlmsg_next(header, &left)) {
      if (header->nlmsg_seq != sequence) continue;  // of a dump given up before
      disturbed |= (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
      if (header->nlmsg_type == NLMSG_DONE) {
        if (disturbed) return Unavailable("netfilter dump: changed meanwhile");
        return outcome;
      }
      if (header->nlmsg_type == NLMSG_ERROR) {
        const auto* error = static_cast<const nlmsgerr*>(::mnl_nlmsg_get_payload(header));
        if (error->error == 0) return outcome;
        return Error::FromErrno(-error->error, "netfilter dump");
      }
      if (outcome) outcome = each(header);
    }
  }
}

Result<void> NfSocket::Request(std::string_view request, std::string_view what) {
  ASSIGN_OR_RETURN(const std::optional<Refusal> refusal, Commit(request));
  if (refusal) return Error::FromErrno(refusal->sys_errno, what);
  return {};
}

}  // namespace holdfast::sys
