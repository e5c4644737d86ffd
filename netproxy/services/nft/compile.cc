// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/compile.h"

#include <algorithm>
#include <utility>

namespace holdfast::netproxy::nft {
namespace {

// Collects operations on one table.
class Script {
 public:
  explicit Script(const ServiceLayout& layout) : layout_(layout) {}

  void Add(Change change) {
    out_.operations.push_back({layout_.family, layout_.table, std::move(change)});
  }
  void AddAll(const SetId& id, uint32_t size, std::vector<Element> elements) {
    if (!elements.empty()) Add(AddElements{FormOf(id, size), std::move(elements)});
  }
  // One operation per set; only those that `picks` wants.
  template <class Operation, class Picks>
  void AddGrouped(const std::vector<SetElement>& elements, const Picks& picks) {
    std::map<SetId, std::vector<Element>> grouped;
    for (const SetElement& e : elements) {
      if (picks(e.set)) grouped[e.set].push_back(e.element);
    }
    for (auto& [id, list] : grouped) Add(Operation{FormOf(id, 0), std::move(list)});
  }
  // Chains, then their rules: of those that packets come in by, or of the others.
  void AddChains(const Table& table, bool hooked) {
    for (const Chain& chain : table.chains) {
      if (chain.hook.has_value() == hooked) Add(AddChain{chain.name, chain.hook});
    }
    for (const Chain& chain : table.chains) {
      if (chain.hook.has_value() != hooked) continue;
      for (const Rule& rule : chain.rules) Add(AddRule{chain.name, rule});
    }
  }
  Transaction Take() { return std::move(out_); }

 private:
  const ServiceLayout& layout_;
  Transaction out_;
};

ObservedChain ObservedFrom(Family family, const Chain& chain) {
  ObservedChain out{chain.hook, {}};
  for (const Rule& rule : chain.rules) out.rules.push_back(RuleText(family, rule));
  return out;
}

// All sets that the chain's rules use are among those that `is_in` knows.
template <class IsIn>
bool UsesOnly(const Chain& chain, const IsIn& is_in) {
  const auto ok = [&](const Statement& statement) {
    if (const auto* s = std::get_if<MatchSet>(&statement)) return is_in(s->set);
    if (const auto* s = std::get_if<DnatFromMap>(&statement)) return is_in(s->map);
    if (const auto* s = std::get_if<VerdictFromMap>(&statement)) return is_in(s->map);
    if (const auto* s = std::get_if<UpdateMap>(&statement)) return is_in(s->map);
    if (const auto* s = std::get_if<DnatFromTwoMaps>(&statement))
      return is_in(s->address_map) && is_in(s->port_map);
    return true;
  };
  return std::all_of(chain.rules.begin(), chain.rules.end(), [&](const Rule& rule) {
    return std::all_of(rule.statements.begin(), rule.statements.end(), ok);
  });
}

bool ByKey(const Element& a, const Element& b) { return a.key < b.key; }

// Appends the difference of one set to `delta`.
void CompareSet(const SetId& id, std::vector<Element> seen, std::vector<Element> wanted,
                ServiceBook::Delta& delta) {
  std::sort(seen.begin(), seen.end(), ByKey);
  std::sort(wanted.begin(), wanted.end(), ByKey);
  auto i = seen.begin();
  auto j = wanted.begin();
  while (i != seen.end() || j != wanted.end()) {
    if (j == wanted.end() || (i != seen.end() && ByKey(*i, *j))) {
      delta.gone.push_back({id, std::move(*i++)});
    } else if (i == seen.end() || ByKey(*j, *i)) {
      delta.added.push_back({id, std::move(*j++)});
    } else {
      if (*i != *j) {
        delta.gone.push_back({id, std::move(*i)});
        delta.added.push_back({id, std::move(*j)});
      }
      ++i;
      ++j;
    }
  }
}

}  // namespace

Transaction ChangeElements(const ServiceLayout& layout, const ServiceBook::Delta& delta) {
  Script script(layout);
  const auto every = [](const SetId&) { return true; };
  script.AddGrouped<DeleteElements>(delta.gone, every);
  script.AddGrouped<AddElements>(delta.added, every);
  return script.Take();
}

Existing ExistingOf(const Table& table, const Table& wanted) {
  Existing out;
  std::map<std::string_view, const Chain*> by_name;
  for (const Chain& chain : wanted.chains) by_name[chain.name] = &chain;
  for (const Chain& chain : table.chains) {
    const auto it = by_name.find(chain.name);
    out.chains[chain.name] = {chain.hook, it != by_name.end() && *it->second == chain};
  }
  for (const Set& set : table.sets) out.sets[set.name] = ShapeOf(table.family, set);
  return out;
}

Existing ExistingOf(const Observed& observed, const Table& wanted) {
  Existing out;
  for (const auto& [name, chain] : observed.chains) out.chains[name] = {chain.hook, false};
  for (const Chain& chain : wanted.chains) {
    const auto it = observed.chains.find(chain.name);
    if (it == observed.chains.end()) continue;
    out.chains[chain.name].same = it->second == ObservedFrom(wanted.family, chain);
  }
  for (const auto& [name, set] : observed.sets) {
    if (!name.starts_with("__")) out.sets[name] = set.shape;
  }
  return out;
}

Transaction ChangeLayout(const Relayout& r) {
  // 1. Rules that are to change go, so that sets and chains may go.  2. What nobody wants goes.
  // 3. Sets, and chains, which elements may name.  4. Rules.  5. Elements: a rule that is added to
  // a map which is full already makes the kernel walk all of it.
  Script script(r.layout);
  std::map<std::string_view, const Set*> wanted_sets;
  for (const Set& set : r.wanted.sets) wanted_sets[set.name] = &set;
  const auto stays = [&](const std::string& name) {
    const auto wanted = wanted_sets.find(name);
    const auto existing = r.existing.sets.find(name);
    return wanted != wanted_sets.end() && existing != r.existing.sets.end() &&
           existing->second == ShapeOf(r.wanted.family, *wanted->second);
  };
  const auto id_stays = [&](const SetId& id) { return stays(NameOf(id)); };
  std::map<std::string_view, const Chain*> wanted_chains;
  for (const Chain& chain : r.wanted.chains) wanted_chains[chain.name] = &chain;
  const auto untouched = [&](const std::string& name) {
    const auto existing = r.existing.chains.find(name);
    if (existing == r.existing.chains.end() || !existing->second.same) return false;
    const auto wanted = wanted_chains.find(name);
    return wanted != wanted_chains.end() && UsesOnly(*wanted->second, stays);
  };
  script.Add(AddTable{});
  for (const auto& [name, chain] : r.existing.chains) {
    if (!untouched(name)) script.Add(FlushChain{name});
  }
  script.AddGrouped<DeleteElements>(r.delta.gone, id_stays);
  for (const auto& [name, shape] : r.existing.sets) {
    if (!stays(name)) script.Add(DeleteSet{Set{name, {}, MapTo::kNothing, {}}});
  }
  for (const auto& [name, chain] : r.existing.chains) {
    const auto wanted = wanted_chains.find(name);
    const bool keeps = wanted != wanted_chains.end() && wanted->second->hook == chain.hook;
    if (!keeps) script.Add(DeleteChain{name});
  }
  for (const Set& set : r.wanted.sets) {
    if (!stays(set.name)) script.Add(AddSet{FormOf(set)});
  }
  for (const Chain& chain : r.wanted.chains) {
    if (!untouched(chain.name)) script.Add(AddChain{chain.name, chain.hook});
  }
  for (const Chain& chain : r.wanted.chains) {
    if (untouched(chain.name)) continue;
    for (const Rule& rule : chain.rules) script.Add(AddRule{chain.name, rule});
  }
  script.AddGrouped<AddElements>(r.delta.added, id_stays);
  for (const auto& [id, elements] : r.all) {
    if (!id_stays(id)) script.AddAll(id, 0, elements);
  }
  return script.Take();
}

std::vector<Transaction> LoadInParts(const Table& wanted, const ServiceLayout& layout,
                                     const ElementsBySet& all, size_t elements_per_part) {
  std::vector<Transaction> out;
  Script first(layout);
  first.Add(AddTable{});
  for (const auto& [id, size] : layout.sizes) first.Add(AddSet{FormOf(id, size)});
  for (const Set& set : wanted.sets) {
    if (set.timeout.count() != 0) first.Add(AddSet{set});
  }
  // A rule that is added to a map which is full already makes the kernel walk all of it.
  first.AddChains(wanted, /*hooked=*/false);
  out.push_back(first.Take());
  for (const auto& [id, elements] : all) {
    for (size_t at = 0; at < elements.size(); at += elements_per_part) {
      const auto begin = elements.begin() + static_cast<std::ptrdiff_t>(at);
      const size_t n = std::min(elements_per_part, elements.size() - at);
      Script part(layout);
      part.AddAll(id, 0, {begin, begin + static_cast<std::ptrdiff_t>(n)});
      out.push_back(part.Take());
    }
  }
  Script last(layout);
  last.AddChains(wanted, /*hooked=*/true);
  out.push_back(last.Take());
  return out;
}

ServiceBook::Delta Compare(const Observed& observed, const ServiceLayout& layout,
                           const ElementsBySet& all) {
  ServiceBook::Delta delta;
  for (const auto& [id, size] : layout.sizes) {
    const auto seen = observed.sets.find(NameOf(id));
    if (seen == observed.sets.end() ||
        seen->second.shape != ShapeOf(layout.family, FormOf(id, size))) {
      continue;
    }
    const auto wanted = all.find(id);
    CompareSet(id, seen->second.elements,
               wanted == all.end() ? std::vector<Element>() : wanted->second, delta);
  }
  return delta;
}

bool SameLayout(const Observed& observed, const Table& wanted) {
  if (observed.chains.size() != wanted.chains.size()) return false;
  for (const Chain& chain : wanted.chains) {
    const auto seen = observed.chains.find(chain.name);
    if (seen == observed.chains.end()) return false;
    if (seen->second != ObservedFrom(wanted.family, chain)) return false;
  }
  if (observed.sets.size() != wanted.sets.size()) return false;
  return std::all_of(wanted.sets.begin(), wanted.sets.end(), [&](const Set& set) {
    const auto seen = observed.sets.find(set.name);
    return seen != observed.sets.end() && seen->second.shape == ShapeOf(wanted.family, set);
  });
}

}  // namespace holdfast::netproxy::nft
