// SPDX-License-Identifier: Apache-2.0
// Addresses that no rule may be made for, whoever asks (CVE-2020-8554, CVE-2021-25737). Pure.
#pragma once

#include <span>

#include "holdfast/base/ip_address.h"

namespace holdfast::netproxy {

// Loopback, link-local, multicast, unspecified, 255.255.255.255, and IPv4 in IPv6's clothes.
bool IsForbidden(const IpAddress& address);
// ::1 alone.
bool IsLoopback6(const IpAddress& address);

bool IsIn(std::span<const Cidr> ranges, const IpAddress& address);

}  // namespace holdfast::netproxy
