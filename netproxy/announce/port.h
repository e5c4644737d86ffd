// SPDX-License-Identifier: Apache-2.0
// Port: an interface as an announcer uses it: frames in and out through packet sockets, and
// membership in the groups that IPv6 questions go to. Nothing is put on the interface; all of it
// ends with the object. Bound to the network namespace of the thread that opened it. One thread.
#pragma once

#include <array>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "netproxy/announce/frames.h"

namespace holdfast::netproxy::announce {

struct PortState {
  bool running = false;  // up, and with a carrier
  MacAddress mac{};
  IpAddress link_local;  // unspecified: it has none (yet)
};

class Port {
 public:
  // Frames about addresses outside `ranges` are never seen. kNotFound: no such interface.
  static Result<Port> Open(const std::string& interface, std::span<const Cidr> ranges);

  // kNotFound when the interface went away since, even if there is another one of its name.
  Result<PortState> Look() const;
  // Readable when a frame waits; -1 where a family has no range.
  std::array<int, 2> fds() const { return {arp_.get(), neighbours_.get()}; }
  // The size of the next frame that waits at `fd`, 0 when none does.
  Result<size_t> Receive(int fd, std::span<uint8_t> buffer) const;
  Result<void> Send(const Frame& frame) const;
  Result<void> SetGroups(const std::set<IpAddress>& groups);

 private:
  Port(std::string interface, int index) : interface_(std::move(interface)), index_(index) {}
  Result<IpAddress> LinkLocal() const;

  std::string interface_;
  int index_ = 0;
  UniqueFd arp_;
  UniqueFd neighbours_;
  UniqueFd control_;  // asked about the interface; member of the groups
  std::set<IpAddress> groups_;
};

}  // namespace holdfast::netproxy::announce
