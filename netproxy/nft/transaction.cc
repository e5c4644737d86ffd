// SPDX-License-Identifier: Apache-2.0
#include "netproxy/nft/transaction.h"

#include <iterator>
#include <utility>

#include "holdfast/base/overloaded.h"
#include "holdfast/base/strings.h"

namespace holdfast::netproxy::nft {
namespace {

std::string ElementsToString(Family family, const Set& set, const std::vector<Element>& elements) {
  std::string out;
  for (const Element& element : elements) {
    out += out.empty() ? "{ " : ", ";
    out += ElementToString(family, set, element);
  }
  return out + " }";
}

// Everything but the elements.
bool SameShape(const Table& a, const Table& b) {
  if (a.family != b.family || a.name != b.name || a.chains != b.chains ||
      a.sets.size() != b.sets.size()) {
    return false;
  }
  for (size_t i = 0; i < a.sets.size(); ++i) {
    if (FormOf(a.sets[i]) != FormOf(b.sets[i])) return false;
  }
  return true;
}

// A changed value is a deletion and an addition of the same key.
std::pair<std::vector<Element>, std::vector<Element>> DiffElements(const Set& previous,
                                                                   const Set& next) {
  std::vector<Element> gone;
  std::vector<Element> added;
  for (const auto& [key, value] : previous.elements) {
    const auto it = next.elements.find(key);
    if (it == next.elements.end() || it->second != value) gone.push_back({key, value, ""});
  }
  for (const auto& [key, value] : next.elements) {
    const auto it = previous.elements.find(key);
    if (it == previous.elements.end() || it->second != value) added.push_back({key, value, ""});
  }
  return {std::move(gone), std::move(added)};
}

}  // namespace

Set FormOf(const Set& set) { return {set.name, set.key, set.to, {}, set.size, set.timeout}; }

std::vector<Element> ElementsOf(const Set& set) {
  std::vector<Element> out;
  for (const auto& [key, value] : set.elements) out.push_back({key, value, ""});
  return out;
}

std::string ToString(const Operation& operation) {
  const Family family = operation.family;
  const std::string where = StrCat(ToString(family), " ", operation.table);
  const auto kind = [](const Set& set) { return set.to == MapTo::kNothing ? "set " : "map "; };
  return std::visit(
      Overloaded{
          [&](const AddTable&) { return StrCat("add table ", where); },
          [&](const DeleteTable&) { return StrCat("delete table ", where); },
          [&](const AddSet& c) {
            return StrCat("add ", kind(c.set), where, " ", c.set.name, " { ",
                          TypeToString(family, c.set), " }");
          },
          [&](const DeleteSet& c) {
            return StrCat("delete ", kind(c.set), where, " ", c.set.name);
          },
          [&](const AddElements& c) {
            return StrCat("add element ", where, " ", c.set.name, " ",
                          ElementsToString(family, c.set, c.elements));
          },
          [&](const DeleteElements& c) {
            return StrCat("delete element ", where, " ", c.set.name, " ",
                          ElementsToString(family, c.set, c.elements));
          },
          [&](const AddChain& c) {
            return StrCat("add chain ", where, " ", c.name,
                          c.hook ? StrCat(" { ", ToString(*c.hook), " }") : "");
          },
          [&](const FlushChain& c) { return StrCat("flush chain ", where, " ", c.name); },
          [&](const DeleteChain& c) { return StrCat("delete chain ", where, " ", c.name); },
          [&](const AddRule& c) {
            return StrCat("add rule ", where, " ", c.chain, " ", ToString(family, c.rule));
          },
      },
      operation.change);
}

std::string Transaction::ToString() const {
  std::string out;
  for (const Operation& operation : operations) out += nft::ToString(operation) + "\n";
  return out;
}

void Transaction::Append(Transaction other) {
  operations.insert(operations.end(), std::make_move_iterator(other.operations.begin()),
                    std::make_move_iterator(other.operations.end()));
}

Transaction Remove(Family family, const std::string& name) {
  // Deleting what is not there is refused, adding what is there is not.
  return {{{family, name, AddTable{}}, {family, name, DeleteTable{}}}};
}

Transaction Replace(const Table& next) {
  Transaction out = Remove(next.family, next.name);
  const auto add = [&](Change change) {
    out.operations.push_back({next.family, next.name, std::move(change)});
  };
  add(AddTable{});
  for (const Set& set : next.sets) {
    add(AddSet{FormOf(set)});
    if (!set.elements.empty()) add(AddElements{FormOf(set), ElementsOf(set)});
  }
  for (const Chain& chain : next.chains) add(AddChain{chain.name, chain.hook});
  for (const Chain& chain : next.chains) {
    for (const Rule& rule : chain.rules) add(AddRule{chain.name, rule});
  }
  return out;
}

Transaction Diff(const Table& previous, const Table& next) {
  if (!SameShape(previous, next)) return Replace(next);
  Transaction out;
  for (size_t i = 0; i < next.sets.size(); ++i) {
    auto [gone, added] = DiffElements(previous.sets[i], next.sets[i]);
    const Set form = FormOf(next.sets[i]);
    if (!gone.empty()) {
      out.operations.push_back({next.family, next.name, DeleteElements{form, std::move(gone)}});
    }
    if (!added.empty()) {
      out.operations.push_back({next.family, next.name, AddElements{form, std::move(added)}});
    }
  }
  return out;
}

}  // namespace holdfast::netproxy::nft
