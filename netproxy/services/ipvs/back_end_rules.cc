// SPDX-License-Identifier: Apache-2.0
// IpvsBackEnd's part in nf_tables.
#include <algorithm>
#include <map>
#include <utility>

#include "netproxy/nft/commit.h"
#include "netproxy/nft/observe.h"
#include "netproxy/services/ipvs/back_end.h"

namespace holdfast::netproxy::ipvs {

bool IpvsBackEnd::IsWanted(bool v6) const {
  return book_.rows(v6) > 0 ||
         std::any_of(settings_->service_cidrs.begin(), settings_->service_cidrs.end(),
                     [v6](const Cidr& cidr) { return cidr.network.v6 == v6; });
}

nft::Table IpvsBackEnd::RulesOf(bool v6, const std::set<IpAddress>& addresses) const {
  nft::Table table = BuildRules(v6 ? nft::Family::kIp6 : nft::Family::kIp, options_.nft_table,
                                *settings_, book_.Prefixes(v6));
  std::map<std::string, nft::Set*> sets;
  for (nft::Set& set : table.sets) sets[set.name] = &set;
  for (const auto& [element, count] : book_.elements(v6)) {
    sets.at(NameOf(element.set))->elements[std::string(element.key.view())] =
        std::string(element.value.view());
  }
  nft::Set& bound = *sets.at(NameOf({RuleSet::kAddresses}));
  for (const IpAddress& address : addresses) {
    if (address.v6 == v6) bound.elements[nft::PackAddress(address)] = "";
  }
  return table;
}

Result<uint64_t> IpvsBackEnd::SynchronizeRules() {
  const std::set<IpAddress> addresses = WantedAddresses();
  uint64_t differences = 0;
  for (const bool v6 : {false, true}) {
    const nft::Family family = v6 ? nft::Family::kIp6 : nft::Family::kIp;
    nft::Transaction change;
    if (IsWanted(v6)) {
      const nft::Table wanted = RulesOf(v6, addresses);
      ASSIGN_OR_RETURN(const bool same, nft::KernelHas(nft_, wanted));
      if (!same) change = nft::Replace(wanted);
    } else {
      ASSIGN_OR_RETURN(const bool there, nft::KernelHasTable(nft_, family, options_.nft_table));
      if (there) change = nft::Remove(family, options_.nft_table);
    }
    if (!change.empty()) ++differences;
    RETURN_IF_ERROR(nft::Commit(nft_, change));
    has_rules_[v6 ? 1 : 0] = IsWanted(v6);
  }
  return differences;
}

nft::Transaction IpvsBackEnd::ChangeRules(const Book::Delta& delta,
                                          const std::set<IpAddress>& came) {
  nft::Transaction out;
  for (const bool v6 : {false, true}) {
    const size_t i = v6 ? 1 : 0;
    const nft::Family family = v6 ? nft::Family::kIp6 : nft::Family::kIp;
    const bool wanted = IsWanted(v6);
    if (wanted != has_rules_[i] || (wanted && delta.relayout[i])) {
      std::set<IpAddress> addresses = bound_;
      addresses.insert(came.begin(), came.end());
      out.Append(wanted ? nft::Replace(RulesOf(v6, addresses))
                        : nft::Remove(family, options_.nft_table));
      has_rules_[i] = wanted;
      continue;
    }
    if (!wanted) continue;
    std::map<RuleSetId, std::vector<nft::Element>> gone;
    std::map<RuleSetId, std::vector<nft::Element>> added;
    for (const RuleElement& e : delta.gone[i]) gone[e.set].push_back({e.key, e.value, ""});
    for (const RuleElement& e : delta.added[i]) added[e.set].push_back({e.key, e.value, ""});
    for (const IpAddress& address : came) {
      if (address.v6 != v6) continue;
      added[{RuleSet::kAddresses}].push_back({nft::PackAddress(address), nft::Bytes(), ""});
    }
    for (auto& [set, elements] : gone) {
      out.operations.push_back(
          {family, options_.nft_table, nft::DeleteElements{FormOf(set), std::move(elements)}});
    }
    for (auto& [set, elements] : added) {
      out.operations.push_back(
          {family, options_.nft_table, nft::AddElements{FormOf(set), std::move(elements)}});
    }
  }
  return out;
}

}  // namespace holdfast::netproxy::ipvs
