// SPDX-License-Identifier: Apache-2.0
// Reads tables back from the kernel. A rule is known by its comment and by what its expressions
// print as, so a changed rule is seen and not only a missing one. One thread at a time per socket.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/sys/nfnl.h"
#include "netproxy/nft/ruleset.h"

namespace holdfast::netproxy::nft {

struct ObservedChain {
  std::optional<Hook> hook;
  std::vector<std::string> rules;  // as RuleText() gives them
  bool operator==(const ObservedChain&) const = default;
};

// What tells that a set has the form that we gave it.
struct SetShape {
  uint32_t key_type = 0;
  uint32_t data_type = 0;
  uint32_t size = 0;
  uint64_t timeout_ms = 0;
  bool operator==(const SetShape&) const = default;
};

struct ObservedSet {
  SetShape shape;
  std::vector<Element> elements;  // as the kernel gives them, in no order
};

struct Observed {
  std::map<std::string, ObservedChain> chains;
  std::map<std::string, ObservedSet> sets;  // anonymous ones included
};

// Nothing: there is no such table. Elements are read of those sets that `with_elements` picks.
Result<std::optional<Observed>> Observe(
    sys::NfSocket& socket, Family family, const std::string& name,
    const std::function<bool(const std::string& set)>& with_elements);

// What a rule of ours looks like when it is read back.
std::string RuleText(Family family, const Rule& rule);
SetShape ShapeOf(Family family, const Set& set);

// Elements of one set; kNotFound when it is not there.
Result<std::vector<Element>> ObserveElements(sys::NfSocket& socket, Family family,
                                             const std::string& table, const std::string& set);

// A number that changes with every transaction of anybody in this network namespace, and with nothing else.
Result<uint32_t> Generation(sys::NfSocket& socket);

Result<bool> KernelHasTable(sys::NfSocket& socket, Family family, const std::string& name);
// False when the table is missing or differs from `wanted` in chains, rules or elements.
Result<bool> KernelHas(sys::NfSocket& socket, const Table& wanted);

}  // namespace holdfast::netproxy::nft
