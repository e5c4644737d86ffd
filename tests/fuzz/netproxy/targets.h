// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the network: frames of the local segment, rules that others wrote, records.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast::fuzz {

void FuzzFrame(std::string_view input);          // ARP and NDP
void FuzzSavedRules(std::string_view input);     // iptables-save
void FuzzAddressRecord(std::string_view input);  // of the address book

}  // namespace holdfast::fuzz
