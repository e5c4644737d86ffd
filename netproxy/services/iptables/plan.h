// SPDX-License-Identifier: Apache-2.0
// Text for iptables-restore --noflush: what to write so that the kernel has what we want. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "netproxy/services/iptables/ruleset.h"
#include "netproxy/services/iptables/saved.h"

namespace holdfast::netproxy::iptables {

// One transaction of one table.
struct TableEdit {
  std::vector<Chain> write;         // emptied or made, then filled
  std::vector<std::string> remove;  // emptied and taken away
  std::string rules;                // lines in chains of others: -D, -I

  bool empty() const { return write.empty() && remove.empty() && rules.empty(); }
};
// "" for an empty one.
std::string Print(Table table, const TableEdit& edit);

struct Repairs {
  uint64_t differences = 0;  // chains that are missing, differ or should not be; misplaced jumps
  std::string text;
};

// From what the kernel has to what we want. Of others' rules only jumps into our chains are
// touched; a chain that somebody else refers to is emptied, not removed.
Repairs Compare(const Saved& saved, const Ruleset& wanted);

// The rules that a text for iptables-restore adds.
RuleCounts CountRules(std::string_view text);

// Everything of this back end's or a kube-proxy's iptables mode out of the kernel; "" when there is
// nothing. `firewall`: KUBE-FIREWALL too, if it holds nothing but the rule that we write.
std::string Clear(const Saved& saved, bool firewall);

// Our chains and the jumps to them, loadable.
std::string PrintOurs(const Saved& saved);

}  // namespace holdfast::netproxy::iptables
