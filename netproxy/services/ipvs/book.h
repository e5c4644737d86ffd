// SPDX-License-Identifier: Apache-2.0
// Book: what the rows of both families want of IPVS, of our rules and of the node's addresses, kept
// so that a change costs what changed. Pure; one thread.
#pragma once

#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "netproxy/services/ipvs/compile.h"

namespace holdfast::netproxy::ipvs {

// A row that comes or, with a null row, goes.
struct Step {
  model::ServicePortKey key;
  model::ServicePortRowPtr row;
};

class Book {
 public:
  // What changed; what went and came again is in neither list.
  struct Delta {
    std::set<VirtualKey> virtuals;  // to be looked at
    std::set<IpAddress> addresses;
    std::array<std::vector<RuleElement>, 2> gone;  // IPv4, IPv6
    std::array<std::vector<RuleElement>, 2> added;
    std::array<bool, 2> relayout{};  // other lengths of source ranges: the table is made anew
  };

  // Forgets all rows.
  void Reset(CompileContext context);
  const CompileContext& context() const { return context_; }
  Delta Enter(std::span<const Step> steps);

  size_t rows(bool v6) const { return rows_of_[v6 ? 1 : 0]; }
  // Null where none is wanted.
  const VirtualServer* Find(const VirtualKey& key) const;
  const std::map<VirtualKey, VirtualServer>& virtuals() const { return virtuals_; }
  bool Wants(const IpAddress& address) const { return addresses_.contains(address); }
  std::vector<IpAddress> Addresses() const;
  // Those that want the address; looks at all rows.
  std::vector<model::ServicePortKey> RowsAt(const IpAddress& address) const;
  std::set<uint8_t> Prefixes(bool v6) const;
  const std::map<RuleElement, uint32_t>& elements(bool v6) const { return elements_[v6 ? 1 : 0]; }
  // Whose that virtual server is; null for nobody's.
  const model::ServicePortKey* OwnerOf(const VirtualKey& key) const;
  std::vector<model::ServicePortRowPtr> AllRows() const;

 private:
  struct Entry {
    model::ServicePortRowPtr row;
    RowRules rules;
    uint32_t slot = 0;
    bool has_slot = false;
  };
  struct Counts {
    std::map<RuleElement, int> elements[2];
  };

  void Remove(const model::ServicePortKey& key, Delta& delta, Counts& counts);
  void Add(const Step& step, Delta& delta, Counts& counts);
  uint32_t TakeSlot(const model::ServicePortKey& key);

  CompileContext context_;
  std::map<model::ServicePortKey, Entry> rows_;
  std::array<size_t, 2> rows_of_{};
  std::map<VirtualKey, VirtualServer> virtuals_;
  std::map<VirtualKey, model::ServicePortKey> owners_;
  std::map<IpAddress, uint32_t> addresses_;
  std::array<std::map<RuleElement, uint32_t>, 2> elements_;  // and how many rows want it
  std::array<std::map<uint8_t, uint32_t>, 2> prefixes_;
  std::array<std::map<uint32_t, std::string>, 2> slots_;
};

}  // namespace holdfast::netproxy::ipvs
