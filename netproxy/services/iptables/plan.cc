// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/plan.h"

#include <algorithm>
#include <set>

#include "holdfast/base/strings.h"
#include "netproxy/services/iptables/compile_base.h"

namespace holdfast::netproxy::iptables {
namespace {

using Names = std::set<std::string, std::less<>>;

bool SameRules(const std::vector<std::string>& saved, std::string_view body) {
  const std::vector<std::string_view> wanted = RulesOf(body);
  return std::equal(saved.begin(), saved.end(), wanted.begin(), wanted.end(),
                    [](std::string_view a, std::string_view b) {
                      return a == b || Canonical(a) == Canonical(b);
                    });
}

// The rules of chains outside `ours` that jump to one of `targets`, by chain.
std::map<std::string, std::vector<std::string>> JumpsInto(const SavedTable& saved,
                                                          const Names& targets, const Names& ours) {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& [chain, rules] : saved) {
    if (ours.contains(chain)) continue;
    for (const std::string& rule : rules) {
      if (rule.find("KUBE-") != std::string::npos && targets.contains(TargetOf(rule))) {
        out[chain].push_back(rule);
      }
    }
  }
  return out;
}

std::vector<std::string> WantedJumps(const Ruleset& wanted, Table table, std::string_view from) {
  std::vector<std::string> out;
  for (const Jump& jump : wanted.jumps) {
    if (jump.table == table && jump.from == from) out.push_back(jump.rule);
  }
  return out;
}

bool SameJumps(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const std::string& x, const std::string& y) { return Canonical(x) == Canonical(y); });
}

// Jumps of one table: all of a chain's are put in anew when one is missing, doubled or misplaced.
uint64_t CompareJumps(Table table, const SavedTable& saved, const Ruleset& wanted,
                      const Names& ours, TableEdit& edit) {
  uint64_t differences = 0;
  Names targets = ours;
  for (const Jump& jump : wanted.jumps) targets.insert(TargetOf(jump.rule));
  auto found = JumpsInto(saved, targets, ours);
  for (const char* from : {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}) {
    const std::vector<std::string> want = WantedJumps(wanted, table, from);
    const std::vector<std::string>& have = found[from];
    if (SameJumps(have, want)) continue;
    ++differences;
    for (const std::string& rule : have) edit.rules += StrCat("-D ", from, " ", rule, "\n");
    for (size_t i = want.size(); i-- > 0;) {
      edit.rules += StrCat("-I ", from, " 1 ", want[i], "\n");
    }
  }
  return differences;
}

// Chains of ours that nobody wants any more.
uint64_t CompareStale(const SavedTable& saved, const std::map<std::string, std::string>& wanted,
                      const Names& ours, TableEdit& edit) {
  uint64_t differences = 0;
  Names stale;
  for (const std::string& name : ours) {
    if (!wanted.contains(name) && saved.contains(name)) stale.insert(name);
  }
  Names foreign;  // referred to by others
  for (const auto& [from, rules] : JumpsInto(saved, stale, ours)) {
    if (IsBuiltIn(from)) continue;
    for (const std::string& rule : rules) foreign.insert(TargetOf(rule));
  }
  for (const std::string& name : stale) {
    if (foreign.contains(name)) {
      if (saved.find(name)->second.empty()) continue;
      edit.write.push_back({name, ""});
    } else {
      edit.remove.push_back(name);
    }
    ++differences;
  }
  return differences;
}

Names OurChains(const SavedTable& saved) {
  Names ours;
  for (const auto& [name, rules] : saved) {
    if (IsBaseChain(name) || IsServiceChain(name)) ours.insert(name);
  }
  return ours;
}

bool IsOurFirewall(const SavedTable& saved) {
  const auto found = saved.find(kFirewall);
  if (found == saved.end()) return false;
  return std::all_of(found->second.begin(), found->second.end(), [](const std::string& rule) {
    return Canonical(rule) == Canonical(FirewallRule());
  });
}

void PrintChain(const std::string& chain, const std::vector<std::string>& rules, std::string& out) {
  for (const std::string& rule : rules) out += StrCat("-A ", chain, " ", rule, "\n");
}

}  // namespace

std::string Print(Table table, const TableEdit& edit) {
  if (edit.empty()) return "";
  std::string out = StrCat("*", ToString(table), "\n");
  for (const Chain& chain : edit.write) out += StrCat(":", chain.name, " - [0:0]\n");
  for (const std::string& name : edit.remove) out += StrCat(":", name, " - [0:0]\n");
  for (const Chain& chain : edit.write) out += chain.body;
  out += edit.rules;
  for (const std::string& name : edit.remove) out += StrCat("-X ", name, "\n");
  return out + "COMMIT\n";
}

Repairs Compare(const Saved& saved, const Ruleset& wanted) {
  Repairs repairs;
  for (const Table table : kAllTables) {
    const SavedTable& have = saved.tables[Index(table)];
    const auto& want = wanted.chains[Index(table)];
    TableEdit edit;
    for (const auto& [name, body] : want) {
      const auto found = have.find(name);
      if (found != have.end() && SameRules(found->second, body)) continue;
      edit.write.push_back({name, body});
      ++repairs.differences;
    }
    Names ours = OurChains(have);
    for (const auto& [name, body] : want) ours.insert(name);
    repairs.differences += CompareStale(have, want, ours, edit);
    repairs.differences += CompareJumps(table, have, wanted, ours, edit);
    repairs.text += Print(table, edit);
  }
  return repairs;
}

RuleCounts CountRules(std::string_view text) {
  RuleCounts counts{};
  size_t at = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with("-A ") || line.starts_with("-I ")) ++counts[at];
    if (!line.starts_with("*")) continue;
    for (const Table table : kAllTables) {
      if (line.substr(1) == ToString(table)) at = Index(table);
    }
  }
  return counts;
}

std::string Clear(const Saved& saved, bool firewall) {
  std::string text;
  for (const Table table : kAllTables) {
    const SavedTable& have = saved.tables[Index(table)];
    TableEdit edit;
    Names ours = OurChains(have);
    if (firewall && table == Table::kFilter && IsOurFirewall(have)) {
      ours.insert(std::string(kFirewall));
    }
    CompareStale(have, {}, ours, edit);
    for (const auto& [from, rules] : JumpsInto(have, ours, ours)) {
      if (!IsBuiltIn(from)) continue;
      for (const std::string& rule : rules) edit.rules += StrCat("-D ", from, " ", rule, "\n");
    }
    text += Print(table, edit);
  }
  return text;
}

std::string PrintOurs(const Saved& saved) {
  std::string text;
  for (const Table table : kAllTables) {
    const SavedTable& have = saved.tables[Index(table)];
    Names ours = OurChains(have);
    if (have.contains(kFirewall)) ours.insert(std::string(kFirewall));
    if (ours.empty()) continue;
    text += StrCat("*", ToString(table), "\n");
    for (const std::string& name : ours) text += StrCat(":", name, " - [0:0]\n");
    for (const auto& [from, rules] : JumpsInto(have, ours, ours)) PrintChain(from, rules, text);
    for (const std::string& name : ours) PrintChain(name, have.find(name)->second, text);
    text += "COMMIT\n";
  }
  return text;
}

}  // namespace holdfast::netproxy::iptables
