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
struct AddElements {
  Set set;  // the set's form and the elements to add
  bool operator==(const AddElements&) const = default;
};
struct DeleteElements {
  Set set;  // the set's form and the elements to delete
  bool operator==(const DeleteElements&) const = default;
};
struct AddChain {
  std::string name;
  std::optional<Hook> hook;
  bool operator==(const AddChain&) const = default;
};
struct AddRule {
  std::string chain;
  Rule rule;
  bool operator==(const AddRule&) const = default;
};

using Change =
    std::variant<AddTable, DeleteTable, AddSet, AddElements, DeleteElements, AddChain, AddRule>;

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

// Makes `next`, whatever is there of that name before.
Transaction Replace(const Table& next);
// Removes the table, if it is there.
Transaction Remove(Family family, const std::string& name);
// From `previous` (what the kernel has) to `next`: elements only where all else is equal.
Transaction Diff(const Table& previous, const Table& next);

}  // namespace holdfast::netproxy::nft
