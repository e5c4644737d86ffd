// SPDX-License-Identifier: Apache-2.0
// ARP (RFC 826, 5227) and neighbour discovery (RFC 4861) as whole Ethernet frames: what an
// announcer says, and what it makes of what it hears. Pure.
//
// Claims of ours bear a mark with the sender's priority, by which agents know each other: for ARP
// bytes after the message, where Ethernet pads anyway; for IPv6 an option of the number that is
// left to experiments (RFC 4727). Everybody else ignores both. It proves nothing: neither protocol
// can.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::netproxy::announce {

using sys::MacAddress;
using Frame = std::vector<uint8_t>;

inline constexpr MacAddress kEverybody = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// "Who has `address`?"; an answer is wanted at `asker`.
struct Question {
  IpAddress address;
  MacAddress mac;   // the asker's
  IpAddress asker;  // unspecified: it only wants to know whether somebody has it
  bool operator==(const Question&) const = default;
};

// "I have `address`."
struct Claim {
  IpAddress address;
  MacAddress mac;
  std::optional<uint8_t> priority;  // nothing: not an agent of ours
  bool operator==(const Claim&) const = default;
};

// One frame may be both: who asks says who it is.
struct Heard {
  std::optional<Question> question;
  std::optional<Claim> claim;
};

// Who speaks.
struct Speaker {
  MacAddress mac{};
  IpAddress link_local;  // its fe80:: address; IPv6 cannot be spoken without
  uint8_t priority = 0;
};

// Nothing in it when it is no such message, or a malformed one.
Heard Parse(std::span<const uint8_t> frame);

// To everybody, unasked; neighbours that know the address take the new owner over.
Frame Announcement(const IpAddress& address, const Speaker& speaker);
Frame Answer(const Question& question, const Speaker& speaker);
// Whether somebody has it; of IPv4 a probe (RFC 5227), so that nobody learns anything from it. To
// everybody who may have it, or to one machine.
Frame Ask(const IpAddress& address, const Speaker& speaker, const std::optional<MacAddress>& whom);

// The multicast address that questions for an IPv6 address go to.
IpAddress SolicitedNode(const IpAddress& address);

}  // namespace holdfast::netproxy::announce
