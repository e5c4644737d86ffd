// SPDX-License-Identifier: Apache-2.0
// IptablesBackEnd: Services as kube-proxy's chains in the tables filter, nat and mangle of both
// families, written by iptables-restore. Bound to the network namespace of the calling thread. One
// thread; no state on disk.
//
// KUBE-FIREWALL and the chains' names are shared with a kubelet or kube-proxy that may have been
// here before: what they left is taken over.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/interfaces/service_back_end.h"
#include "netproxy/services/iptables/family_sync.h"
#include "netproxy/services/iptables/host.h"
#include "netproxy/services/iptables/watch.h"

namespace holdfast::netproxy::iptables {

class IptablesBackEnd : public ServiceBackEnd {
 public:
  // Finds the programs (ChoosePrograms); kNotFound without any. `lock`: HostOptions::lock.
  static Result<std::unique_ptr<IptablesBackEnd>> Open(const std::string& lock);
  // `others` are cleaned by Remove() too: the kinds of xtables that are not used.
  IptablesBackEnd(std::unique_ptr<XtablesHost> host,
                  std::vector<std::unique_ptr<XtablesHost>> others,
                  std::shared_ptr<IptablesWatch> watch = nullptr);

  // Of the rules of Open()'s choice.
  std::shared_ptr<RulesWatch> watch() const { return watch_; }

  Result<ServiceApplied> Apply(const model::ServiceChange& change) override;
  Result<uint64_t> Repair() override;
  Result<bool> Remove() override;
  std::vector<RuleCount> CountRules() const override;
  Result<std::string> Dump() override;

 private:
  Result<void> ApplyFamily(FamilySync& family, bool v6, const model::ServiceChange& change,
                           ServiceApplied& applied);
  Result<void> AllowLocalnet();
  Result<void> ForbidLocalnet();
  // False when nothing was there.
  Result<bool> Clean(XtablesHost& host, bool firewall);

  std::shared_ptr<IptablesWatch> watch_;
  std::unique_ptr<XtablesHost> host_;
  std::vector<std::unique_ptr<XtablesHost>> others_;
  FamilySync v4_;
  FamilySync v6_;
  bool has_v6_ = false;        // IPv6 was written once
  bool set_localnet_ = false;  // route_localnet was 0 before us
};

}  // namespace holdfast::netproxy::iptables
