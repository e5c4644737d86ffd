// SPDX-License-Identifier: Apache-2.0
// What the kernel says of one tracked connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/sys/nfnl.h"

struct nlmsghdr;

namespace holdfast::sys {

struct TrackedFlow {
  Flow flow;
  std::string original;  // CTA_TUPLE_ORIG as received: the name of the entry
  std::optional<uint32_t> id;
};

// `header` is followed by as many bytes as it says. Nothing: another protocol, or not whole.
std::optional<TrackedFlow> ParseTrackedFlow(const nlmsghdr* header, bool v6, uint8_t protocol);

}  // namespace holdfast::sys
