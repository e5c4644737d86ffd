// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the runtime's own formats: packets and records that another process, another
// version or a damaged disk may have written.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast::fuzz {

// The first byte chooses among the kinds.
void FuzzKeeperMessage(std::string_view input);  // payloads of packets, keys, lists, exit events
void FuzzLaunchPlan(std::string_view input);     // what the launcher executes
void FuzzRuntimeRecord(std::string_view input);  // records of sandboxes and containers
// Entries of a journal behind a right header; "!!" stands for the file's mark.
void FuzzJournal(std::string_view input);

}  // namespace holdfast::fuzz
