// SPDX-License-Identifier: Apache-2.0
// One family's rules as text: what we want the kernel to have. Plain data.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "netproxy/services/iptables/names.h"

namespace holdfast::netproxy::iptables {

// Chains that rows and the base share: lines of every row, and a tail of the base.
enum class SharedChain : uint8_t {
  kNatServices,
  kNatNodePorts,
  kFilterServices,
  kFilterExternal,
  kFilterNodePorts,
  kFilterFirewall,
};
inline constexpr size_t kSharedChains = 6;
Table TableOf(SharedChain chain);
std::string_view NameOf(SharedChain chain);

// Bodies are whole "-A CHAIN …\n" lines.
struct Chain {
  std::string name;
  std::string body;
  bool operator==(const Chain&) const = default;
};

// How many rules, by table.
using RuleCounts = std::array<size_t, kTables>;

// What one row needs: chains of its own in nat, and its lines in the shared chains.
struct RowRules {
  std::vector<Chain> chains;  // sorted by name
  std::array<std::string, kSharedChains> lines;
  bool operator==(const RowRules&) const = default;
};

// "-A FROM <rule>" in a chain of the kernel's, with `rule` ending in the jump.
struct Jump {
  Table table = Table::kFilter;
  std::string from;
  std::string rule;
};

// What does not depend on rows.
struct BaseRules {
  std::array<std::vector<Chain>, kTables> chains;
  std::array<std::string, kSharedChains> tails;
  std::vector<Jump> jumps;  // in the order the rules of one chain shall have
};

// Everything together, chain by name.
struct Ruleset {
  std::array<std::map<std::string, std::string>, kTables> chains;
  std::vector<Jump> jumps;
};

inline size_t Index(Table table) { return static_cast<size_t>(table); }
inline size_t Index(SharedChain chain) { return static_cast<size_t>(chain); }

}  // namespace holdfast::netproxy::iptables
