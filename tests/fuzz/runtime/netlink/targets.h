// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of netlink: messages as the kernel of another version, or none of ours, would send.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzNotification(std::string_view input);  // a datagram of nf_tables' notifications
void FuzzTrackedFlow(std::string_view input);   // an entry of conntrack, from behind its nlmsghdr
void FuzzGenlAnswer(std::string_view input);    // attributes, as IPVS answers with

}  // namespace holdfast::fuzz
