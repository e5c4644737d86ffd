// SPDX-License-Identifier: Apache-2.0
// Election: whether this node is the one that answers for an address. Pure; time comes from outside
// (boot time). One object per address and segment.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "holdfast/base/clock.h"
#include "netproxy/announce/frames.h"

namespace holdfast::netproxy::announce {

// A holder may answer for this long after it last made sure that it is one; whoever wants to take
// its place waits for longer than that.
inline constexpr std::chrono::milliseconds kFence{2000};
inline constexpr std::chrono::milliseconds kPatience{3000};
inline constexpr std::chrono::milliseconds kTickEvery{500};
inline constexpr std::chrono::milliseconds kAskEvery{1000};

// What an election wants to be done now.
struct Deeds {
  bool ask = false;                // whether somebody answers,
  std::optional<MacAddress> whom;  // and whom; nothing: everybody
  bool announce = false;
  std::string news;  // for people; "" when nothing is new
};

class Election {
 public:
  virtual ~Election() = default;

  // Every kTickEvery, or so: how late it comes is what tells a node that it stood still.
  virtual Deeds Tick(BootTime now) = 0;
  // Somebody else says that the address is its own.
  virtual Deeds Hear(const Claim& claim, BootTime now) = 0;
  // The segment cannot be heard or spoken to.
  virtual Deeds LoseSight(BootTime now) = 0;
  // To be asked directly before each answer, with the time of the moment.
  virtual bool MayAnswer(BootTime now) const = 0;
  // "held here", "held by 02:00:00:00:00:01, priority 100", …
  virtual std::string Describe(BootTime now) const = 0;
};

std::string ToString(const MacAddress& mac);

}  // namespace holdfast::netproxy::announce
