// SPDX-License-Identifier: Apache-2.0
// The netfilter netlink socket: atomic batches for nf_tables, dumps, and conntrack entries.
// Bound to the network namespace of the thread that opened it. One thread at a time per object.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"

struct mnl_socket;
struct nlmsghdr;

namespace holdfast::sys {

class NfSocket {
 public:
  static Result<NfSocket> Open();

  // The sender's number in the kernel's notifications of what this socket changed.
  uint32_t port() const;

  // The kernel refused a batch; nothing of it was done.
  struct Refusal {
    uint32_t sequence = 0;  // nlmsg_seq of the first message it did not like
    int sys_errno = 0;
  };

  // Sends a whole batch (begin, messages, end) at once. The last message before the end must carry
  // NLM_F_ACK: its answer tells that the batch was committed.
  Result<std::optional<Refusal>> Commit(std::string_view batch);

  // Sends one request with NLM_F_DUMP, or with NLM_F_ACK where it has one answer, and calls `each` per answer. A dump that was
  // disturbed by a change is kUnavailable (EINTR): ask again.
  Result<void> Dump(std::string_view request,
                    const std::function<Result<void>(const nlmsghdr*)>& each);

  // Sends one request with NLM_F_ACK and waits for its answer.
  Result<void> Request(std::string_view request, std::string_view what);

 private:
  struct SocketClose {
    void operator()(mnl_socket* socket) const;
  };
  explicit NfSocket(mnl_socket* socket) : socket_(socket) {}
  Result<void> Send(std::string_view data);

  std::unique_ptr<mnl_socket, SocketClose> socket_;
};

// A tracked connection, as far as NAT matters.
struct Flow {
  IpAddress original_source;
  IpAddress original_destination;
  uint16_t original_destination_port = 0;
  IpAddress reply_source;  // differs from original_destination where the destination was translated
  uint16_t reply_source_port = 0;
  bool answered = true;  // the other side sent something, too
};

// Deletes the entries of (family, protocol, original destination port; 0: every port) that
// `unwanted` picks; returns how many. The filtering by port is done in the kernel (5.8 and later)
// and here.
Result<size_t> DeleteFlows(NfSocket& socket, bool v6, uint8_t protocol, uint16_t destination_port,
                           const std::function<bool(const Flow&)>& unwanted);

}  // namespace holdfast::sys
