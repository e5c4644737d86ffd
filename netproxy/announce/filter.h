// SPDX-License-Identifier: Apache-2.0
// What of a segment's packets the kernel gives to an announcer at all, as classic BPF: ARP and
// neighbour discovery about addresses of the configured ranges. Pure.
#pragma once

#include <linux/filter.h>

#include <span>
#include <vector>

#include "holdfast/base/ip_address.h"

namespace holdfast::netproxy::announce {

// For whole Ethernet frames of the EtherType: ARP whose sender or target is in a range.
std::vector<sock_filter> ArpFilter(std::span<const Cidr> ranges);
// Solicitations and advertisements whose target is in a range, and solicitations from there.
std::vector<sock_filter> NeighbourFilter(std::span<const Cidr> ranges);

}  // namespace holdfast::netproxy::announce
