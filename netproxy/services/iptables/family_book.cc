// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/family_book.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::iptables {
namespace {

constexpr std::array kFilterChains = {SharedChain::kFilterServices, SharedChain::kFilterExternal,
                                      SharedChain::kFilterNodePorts, SharedChain::kFilterFirewall};
constexpr std::array kNatChains = {SharedChain::kNatServices, SharedChain::kNatNodePorts};

size_t Lines(std::string_view text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

RuleCounts CountsOf(const RowRules& rules) {
  RuleCounts counts{};
  for (const Chain& chain : rules.chains) counts[Index(Table::kNat)] += Lines(chain.body);
  for (size_t i = 0; i < kSharedChains; ++i) {
    counts[Index(TableOf(static_cast<SharedChain>(i)))] += Lines(rules.lines[i]);
  }
  return counts;
}

RuleCounts CountsOf(const BaseRules& base) {
  RuleCounts counts{};
  for (size_t table = 0; table < kTables; ++table) {
    for (const Chain& chain : base.chains[table]) counts[table] += Lines(chain.body);
  }
  for (size_t i = 0; i < kSharedChains; ++i) {
    counts[Index(TableOf(static_cast<SharedChain>(i)))] += Lines(base.tails[i]);
  }
  for (const Jump& jump : base.jumps) ++counts[Index(jump.table)];
  return counts;
}

// The lines of `a` that are not in `b`.
std::string Difference(const std::string& a, const std::string& b) {
  if (a == b) return "";
  std::string out;
  for (const std::string_view rule : RulesOf(a)) {
    const auto others = RulesOf(b);
    if (std::find(others.begin(), others.end(), rule) != others.end()) continue;
    // RulesOf() gives views of whole lines without their "-A CHAIN ".
    const std::string_view all(a);
    const size_t end = static_cast<size_t>(rule.data() - all.data()) + rule.size();
    const size_t before = all.rfind('\n', end - 1);
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    out += StrCat(all.substr(begin, end - begin), "\n");
  }
  return out;
}

}  // namespace

void FamilyBook::Reset(CompileContext context, std::span<const model::ServicePortRowPtr> rows) {
  context_ = std::move(context);
  rows_.clear();
  endpoints_ = 0;
  for (const model::ServicePortRowPtr& row : rows) {
    if (row->key.v6 != context_.v6) continue;
    rows_[row->key.name].row = row;
    endpoints_ += row->cluster.size();
  }
  CompileAll();
}

void FamilyBook::SetContext(CompileContext context) {
  context_ = std::move(context);
  CompileAll();
}

void FamilyBook::CompileAll() {
  context_.large = IsLarge();
  base_ = CompileBase(context_);
  counts_ = CountsOf(base_);
  for (auto& [name, entry] : rows_) {
    entry.rules = CompileRow(*entry.row, context_);
    Count({}, entry.rules);
  }
}

std::optional<std::string> FamilyBook::Update(std::span<const model::ServicePortRowPtr> rows,
                                              std::span<const model::ServicePortKey> removed) {
  Delta delta;
  for (const model::ServicePortKey& key : removed) {
    const auto found = rows_.find(key.name);
    if (key.v6 != context_.v6 || found == rows_.end()) continue;
    endpoints_ -= found->second.row->cluster.size();
    Collect(found->second.rules, {}, delta);
    Count(found->second.rules, {});
    rows_.erase(found);
  }
  for (const model::ServicePortRowPtr& row : rows) {
    if (row->key.v6 != context_.v6) continue;
    Entry& entry = rows_[row->key.name];
    if (entry.row) endpoints_ -= entry.row->cluster.size();
    endpoints_ += row->cluster.size();
    RowRules rules = CompileRow(*row, context_);
    Collect(entry.rules, rules, delta);
    Count(entry.rules, rules);
    entry = {row, std::move(rules)};
  }
  if (IsLarge() != context_.large) {
    CompileAll();
    return std::nullopt;
  }
  return Print(std::move(delta));
}

void FamilyBook::Count(const RowRules& gone, const RowRules& added) {
  const RuleCounts minus = CountsOf(gone);
  const RuleCounts plus = CountsOf(added);
  for (size_t table = 0; table < kTables; ++table) {
    counts_[table] = counts_[table] + plus[table] - minus[table];
  }
}

void FamilyBook::Collect(const RowRules& before, const RowRules& after, Delta& delta) {
  auto old = before.chains.begin();
  for (const Chain& chain : after.chains) {
    for (; old != before.chains.end() && old->name < chain.name; ++old) {
      delta.nat.remove.push_back(old->name);
    }
    if (old != before.chains.end() && old->name == chain.name) {
      if (old->body != chain.body) delta.nat.write.push_back(chain);
      ++old;
    } else {
      delta.nat.write.push_back(chain);
    }
  }
  for (; old != before.chains.end(); ++old) delta.nat.remove.push_back(old->name);
  for (size_t i = 0; i < kSharedChains; ++i) {
    delta.added[i] += Difference(after.lines[i], before.lines[i]);
    delta.gone[i] += Difference(before.lines[i], after.lines[i]);
  }
}

// Tables are committed one after the other. A packet that nat does not send to an endpoint must
// find its refusal in filter at every moment: refusals come before nat changes, and go after.
std::string FamilyBook::Print(Delta delta) const {
  TableEdit before;
  TableEdit after;
  for (const SharedChain chain : kFilterChains) {
    const std::string& gone = delta.gone[Index(chain)];
    const std::string name(NameOf(chain));
    if (!delta.added[Index(chain)].empty()) {
      before.write.push_back({name, SharedText(chain) + gone});
    }
    if (!gone.empty()) after.write.push_back({name, SharedText(chain)});
  }
  for (const SharedChain chain : kNatChains) {
    if (delta.added[Index(chain)].empty() && delta.gone[Index(chain)].empty()) continue;
    delta.nat.write.push_back({std::string(NameOf(chain)), SharedText(chain)});
  }
  return StrCat(iptables::Print(Table::kFilter, before), iptables::Print(Table::kNat, delta.nat),
                iptables::Print(Table::kFilter, after));
}

std::string FamilyBook::SharedText(SharedChain chain) const {
  std::string text;
  for (const auto& [name, entry] : rows_) text += entry.rules.lines[Index(chain)];
  return text + base_.tails[Index(chain)];
}

Ruleset FamilyBook::Wanted() const {
  Ruleset wanted;
  wanted.jumps = base_.jumps;
  for (size_t table = 0; table < kTables; ++table) {
    for (const Chain& chain : base_.chains[table]) wanted.chains[table][chain.name] = chain.body;
  }
  for (size_t i = 0; i < kSharedChains; ++i) {
    const auto chain = static_cast<SharedChain>(i);
    wanted.chains[Index(TableOf(chain))][std::string(NameOf(chain))] = SharedText(chain);
  }
  auto& nat = wanted.chains[Index(Table::kNat)];
  for (const auto& [name, entry] : rows_) {
    for (const Chain& chain : entry.rules.chains) nat[chain.name] = chain.body;
  }
  return wanted;
}

}  // namespace holdfast::netproxy::iptables
