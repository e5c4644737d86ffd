// SPDX-License-Identifier: Apache-2.0
#include "netproxy/table/service_addresses.h"

#include <algorithm>

namespace holdfast::netproxy {
namespace {

// The first twelve bytes of ::ffff:0:0/96.
bool IsMapped(const IpAddress& a) {
  for (size_t i = 0; i < 10; ++i) {
    if (a.bytes[i] != 0) return false;
  }
  return a.bytes[10] == 0xff && a.bytes[11] == 0xff;
}

}  // namespace

bool IsLoopback6(const IpAddress& a) {
  IpAddress one;
  one.v6 = true;
  one.bytes[15] = 1;
  return a == one;
}

bool IsForbidden(const IpAddress& a) {
  const auto& b = a.bytes;
  if (!a.v6) {
    const bool broadcast = b[0] == 255 && b[1] == 255 && b[2] == 255 && b[3] == 255;
    return b[0] == 0 || b[0] == 127 || (b[0] == 169 && b[1] == 254) || (b[0] >> 4) == 0xe ||
           broadcast;
  }
  const bool link_local = b[0] == 0xfe && (b[1] & 0xc0) == 0x80;
  return a.IsUnspecified() || IsLoopback6(a) || link_local || b[0] == 0xff || IsMapped(a);
}

bool IsIn(std::span<const Cidr> ranges, const IpAddress& address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Cidr& range) { return range.Contains(address); });
}

}  // namespace holdfast::netproxy
