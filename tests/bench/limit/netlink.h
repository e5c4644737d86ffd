// SPDX-License-Identifier: Apache-2.0
// Requests to routing netlink that go out in one send. What the kernel refuses ends the program, with the request's
// number: a limit program that did not do all of its work would be no limit. Single-threaded.
#pragma once

#include <libmnl/libmnl.h>

#include <array>
#include <cstdint>

#include "holdfast/base/unique_fd.h"

namespace holdfast::bench {

UniqueFd OpenNetlink();  // of the calling thread's network namespace

class NetlinkBatch {
 public:
  // A further request: its attributes are put (mnl_attr_put, …) before the next one begins. `header`, of the kind that
  // `type` has behind the netlink header, lies there zeroed.
  template <class Header>
  nlmsghdr* Begin(uint16_t type, uint16_t flags, const Header& header) {
    nlmsghdr* message = Begin(type, flags);
    *static_cast<Header*>(mnl_nlmsg_put_extra_header(message, sizeof header)) = header;
    return message;
  }
  // All of them; returns when the kernel has done the last one.
  void Do(int socket);

 private:
  nlmsghdr* Begin(uint16_t type, uint16_t flags);

  alignas(nlmsghdr) std::array<char, 8192> bytes_;
  nlmsghdr* last_ = nullptr;
  uint32_t count_ = 0;
};

}  // namespace holdfast::bench
