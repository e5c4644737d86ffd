// SPDX-License-Identifier: Apache-2.0
// What iptables-save prints, read back, and the form in which a rule that we wrote and the same
// rule as the kernel shows it are equal. Pure.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "netproxy/services/iptables/ruleset.h"

namespace holdfast::netproxy::iptables {

// The rules of each chain, without "-A CHAIN ".
using SavedTable = std::map<std::string, std::vector<std::string>, std::less<>>;

struct Saved {
  std::array<SavedTable, kTables> tables;  // other tables are left out
};

// kConflict when there is a table that only nft can show.
Result<Saved> ParseSaved(std::string_view text);

// Options in one order, defaults left out, numbers as the kernel keeps them. Equal means the same
// rule; only for the matches and targets that this folder writes.
std::string Canonical(std::string_view rule);

// The chain that the rule jumps to, or its target; "" without one.
std::string TargetOf(std::string_view rule);

// Each line of a body ("-A CHAIN rule\n…") without "-A CHAIN ".
std::vector<std::string_view> RulesOf(std::string_view body);

}  // namespace holdfast::netproxy::iptables
