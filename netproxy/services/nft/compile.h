// SPDX-License-Identifier: Apache-2.0
// Changes of the Service table as transactions. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "netproxy/nft/observe.h"
#include "netproxy/nft/transaction.h"
#include "netproxy/services/nft/book.h"
#include "netproxy/services/nft/layout.h"

namespace holdfast::netproxy::nft {

using ElementsBySet = std::map<SetId, std::vector<Element>>;

// Elements only: what goes, then what comes.
Transaction ChangeElements(const ServiceLayout& layout, const ServiceBook::Delta& delta);

// What is there: names of chains and sets, before a change of the layout.
struct Existing {
  struct ExistingChain {
    std::optional<Hook> hook;
    bool same = false;  // its rules are those that are wanted
  };
  std::map<std::string, ExistingChain> chains;
  std::map<std::string, SetShape> sets;
};
Existing ExistingOf(const Table& table, const Table& wanted);
Existing ExistingOf(const Observed& observed, const Table& wanted);

// From `existing` to `wanted`, in one transaction: chains that differ, and those that use a set
// that is made anew, are written anew; sets whose form is right
// stay as they are, with what is in them. `all` gives the elements of the others.
// `gone` and `added` are the changes of those that stay.
struct Relayout {
  const Existing& existing;
  const Table& wanted;
  const ServiceLayout& layout;
  const ElementsBySet& all;
  const ServiceBook::Delta& delta;
};
Transaction ChangeLayout(const Relayout& relayout);

// A table where there is none, in parts: sets and rules, elements (so many at a time), and last
// the chains that packets come in by.
std::vector<Transaction> LoadInParts(const Table& wanted, const ServiceLayout& layout,
                                     const ElementsBySet& all, size_t elements_per_part);

// What is wanted against what was seen, of sets that are there with the right form.
ServiceBook::Delta Compare(const Observed& observed, const ServiceLayout& layout,
                           const ElementsBySet& all);
// Chains, rules, and forms of sets are as wanted, and there is nothing else.
bool SameLayout(const Observed& observed, const Table& wanted);

}  // namespace holdfast::netproxy::nft
