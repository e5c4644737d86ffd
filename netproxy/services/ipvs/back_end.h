// SPDX-License-Identifier: Apache-2.0
// IpvsBackEnd: Services as IPVS virtual servers, service addresses on a device of our own, and a
// small nf_tables table beside them (rules.h). Bound to the network namespace of the thread that
// opened it. One thread at a time.
//
// Ours are virtual servers of addresses that we bound, and those of marks with our upper byte;
// others are left alone. Repair() also ends what leaves gracefully, so it should be called every
// few seconds.
#pragma once

#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/interfaces/service_back_end.h"
#include "holdfast/sys/nfnl.h"
#include "netproxy/nft/transaction.h"
#include "netproxy/services/ipvs/addresses.h"
#include "netproxy/services/ipvs/book.h"
#include "netproxy/services/ipvs/kernel.h"
#include "netproxy/services/ipvs/options.h"
#include "netproxy/services/ipvs/parameters.h"
#include "netproxy/services/ipvs/plan.h"

namespace holdfast::netproxy::ipvs {

class IpvsBackEnd : public ServiceBackEnd {
 public:
  // kNotFound names what the kernel lacks (probe.h). Nothing is changed yet.
  static Result<std::unique_ptr<IpvsBackEnd>> Open(IpvsOptions options);
  // What Remove() does, also on a kernel without IPVS; and away with kube-proxy's device and the
  // virtual servers of its addresses.
  static Result<bool> CleanUp(const IpvsOptions& options);

  // NftWatch does not report what this sender changes.
  uint32_t port() const { return nft_.port(); }

  Result<ServiceApplied> Apply(const model::ServiceChange& change) override;
  Result<uint64_t> Repair() override;
  Result<bool> Remove() override;
  // For ipvsadm-restore, `nft -f` and `ip -batch`, one after the other.
  Result<std::string> Dump() override;

 private:
  IpvsBackEnd(IpvsOptions options, uint32_t flags, IpvsKernel kernel, sys::NfSocket nft,
              ServiceAddresses addresses);

  Result<ServiceApplied> ApplyAll(const std::vector<Step>& steps);
  Result<ServiceApplied> ApplySome(const std::vector<Step>& steps);
  // The kernel refuses nothing, or something is not as we thought.
  Result<bool> Send(const Book::Delta& delta);
  Result<CompileContext> Context();
  // Reads everything and makes it what the book says; rows that the kernel refuses go out of the
  // book. The number of differences.
  Result<uint64_t> Synchronize(std::vector<RefusedServicePort>& refused);
  Result<uint64_t> SynchronizeOnce(std::vector<RefusedServicePort>& refused);
  Result<Observed> ObserveOurs();
  bool IsOurs(const VirtualKey& key, const VirtualConfig& config) const;
  // Sends what comes; the rows whose part was refused.
  Result<std::vector<RefusedServicePort>> Grow(const std::vector<Operation>& operations);

  Result<void> SendAway(const std::vector<Operation>& operations);
  // Real servers that leave and have ended.
  Result<void> Sweep(const Observed& observed, BootTime now);

  // An address is bound as long as a row wants it or connections to it are ending.
  bool MustBeBound(const IpAddress& address) const;
  std::set<IpAddress> WantedAddresses() const;
  Result<void> Unbind(const std::set<IpAddress>& addresses);
  // Rows whose address cannot be bound are refused.
  Result<uint64_t> SynchronizeAddresses(std::vector<RefusedServicePort>& refused);

  bool IsWanted(bool v6) const;
  nft::Table RulesOf(bool v6, const std::set<IpAddress>& addresses) const;
  Result<uint64_t> SynchronizeRules();
  nft::Transaction ChangeRules(const Book::Delta& delta, const std::set<IpAddress>& came);

  IpvsOptions options_;
  uint32_t scheduler_flags_ = 0;
  IpvsKernel kernel_;
  sys::NfSocket nft_;
  ServiceAddresses addresses_;
  Parameters parameters_;
  SystemClock clock_;
  std::shared_ptr<const model::ServiceSettings> settings_;  // null: nothing was applied
  Book book_;
  Known known_;
  std::set<IpAddress> bound_;
  std::array<bool, 2> has_rules_{};  // a family has its table, as far as we know
};

}  // namespace holdfast::netproxy::ipvs
