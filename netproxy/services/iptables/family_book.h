// SPDX-License-Identifier: Apache-2.0
// FamilyBook: the rules of one IP family, kept in pieces per row, so that a change costs what
// changed. Pure; one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "netproxy/services/iptables/compile_base.h"
#include "netproxy/services/iptables/compile_row.h"
#include "netproxy/services/iptables/plan.h"

namespace holdfast::netproxy::iptables {

class FamilyBook {
 public:
  // Forgets everything; `rows` are all there are. `context.large` is decided here.
  void Reset(CompileContext context, std::span<const model::ServicePortRowPtr> rows);

  // Compiles all rows anew; only Compare() tells the difference.
  void SetContext(CompileContext context);

  // Takes the change in and returns what brings the kernel from the rules before to those after:
  // "" when they are the same, nullopt when everything is compiled anew and only Compare() tells.
  std::optional<std::string> Update(std::span<const model::ServicePortRowPtr> rows,
                                    std::span<const model::ServicePortKey> removed);

  Ruleset Wanted() const;
  const CompileContext& context() const { return context_; }
  size_t size() const { return rows_.size(); }
  // Of what is wanted.
  const RuleCounts& counts() const { return counts_; }

 private:
  struct Entry {
    model::ServicePortRowPtr row;
    RowRules rules;
  };
  // What an update changes, chain by chain.
  struct Delta {
    TableEdit nat;
    std::array<std::string, kSharedChains> added;
    std::array<std::string, kSharedChains> gone;
  };

  static void Collect(const RowRules& before, const RowRules& after, Delta& delta);
  std::string Print(Delta delta) const;
  std::string SharedText(SharedChain chain) const;
  void Count(const RowRules& gone, const RowRules& added);
  bool IsLarge() const { return endpoints_ > kLargeClusterEndpoints; }
  void CompileAll();

  CompileContext context_;
  BaseRules base_;
  std::map<std::string, Entry> rows_;  // by name: one family
  RuleCounts counts_{};
  size_t endpoints_ = 0;
};

}  // namespace holdfast::netproxy::iptables
