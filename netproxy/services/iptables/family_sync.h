// SPDX-License-Identifier: Apache-2.0
// FamilySync: brings one IP family's rules into the kernel and keeps them there. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "holdfast/interfaces/service_back_end.h"
#include "netproxy/services/iptables/family_book.h"
#include "netproxy/services/iptables/host.h"

namespace holdfast::netproxy::iptables {

class FamilySync {
 public:
  FamilySync(bool v6, XtablesHost& host) : v6_(v6), host_(host) {}

  // Rows of the other family are left out. Returns those that were refused.
  Result<std::vector<RefusedServicePort>> Apply(const model::ServiceChange& change,
                                                bool liberal_conntrack);
  // 0 before the first change and after a failure.
  Result<uint64_t> Repair();
  // Nothing is known of the kernel any more.
  void Forget() { synced_ = false; }
  // Of each table, as Apply() left it.
  std::vector<RuleCount> CountRules() const;

 private:
  using Rows = std::span<const model::ServicePortRowPtr>;

  // Only what changed; false when that is not possible or was refused.
  Result<bool> WriteChange(const model::ServiceChange& change, bool liberal_conntrack);
  Result<void> Write(const std::string& text);
  // Reads the kernel and writes what differs.
  Result<uint64_t> Reconcile();
  // Reconcile(), without those of `suspects` that make it fail.
  Result<std::vector<RefusedServicePort>> ReconcileWithout(Rows suspects);
  Result<void> FindRefused(Rows rows, std::vector<RefusedServicePort>& refused);

  const bool v6_;
  XtablesHost& host_;
  FamilyBook book_;
  RuleCounts written_{};  // with the last change
  bool synced_ = false;   // the kernel has what the book has, as far as we know
};

}  // namespace holdfast::netproxy::iptables
