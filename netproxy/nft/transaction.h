// SPDX-License-Identifier: Apache-2.0
// Transaction: a change to our tables as data. Printed it is a file for `nft -f`; sent to the
// kernel it is one netlink batch, done whole or not at all. Pure values.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "netproxy/nft/ruleset.h"

namespace holdfast::netproxy::nft {

struct AddTable {
  bool operator==(const AddTable&) const = default;
};
struct DeleteTable {
  bool operator==(const DeleteTable&) const = default;
};
struct AddSet {
  Set set;  // without elements
  bool operator==(const AddSet&) const = default;
};
struct DeleteSet {
  Set set;
  bool operator==(const DeleteSet&) const = default;
};
struct AddElements {
  Set set;  // the set's form, without elements
  std::vector<Element> elements;
  bool operator==(const AddElements&) const = default;
};
struct DeleteElements {
  Set set;  // the set's form, without elements
  std::vector<Element> elements;
  bool operator==(const DeleteElements&) const = default;
};
struct AddChain {
  std::string name;
  std::optional<Hook> hook;
  bool operator==(const AddChain&) const = default;
};
// All rules of the chain.
struct FlushChain {
  std::string name;
  bool operator==(const FlushChain&) const = default;
};
struct DeleteChain {
  std::string name;
  bool operator==(const DeleteChain&) const = default;
};
struct AddRule {
  std::string chain;
  Rule rule;
  bool operator==(const AddRule&) const = default;
};

using Change = std::variant<AddTable, DeleteTable, AddSet, DeleteSet, AddElements, DeleteElements,
                            AddChain, FlushChain, DeleteChain, AddRule>;

struct Operation {
  Family family = Family::kIp;
  std::string table;
  Change change;
  bool operator==(const Operation&) const = default;
};

struct Transaction {
  std::vector<Operation> operations;

  bool empty() const { return operations.empty(); }
  std::string ToString() const;
  void Append(Transaction other);
};

std::string ToString(const Operation& operation);

// The set's form: what it is without its elements.
Set FormOf(const Set& set);
std::vector<Element> ElementsOf(const Set& set);

// Makes `next`, whatever is there of that name before.
Transaction Replace(const Table& next);
// Removes the table, if it is there.
Transaction Remove(Family family, const std::string& name);
// From `previous` (what the kernel has) to `next`: elements only where all else is equal.
Transaction Diff(const Table& previous, const Table& next);

}  // namespace holdfast::netproxy::nft
