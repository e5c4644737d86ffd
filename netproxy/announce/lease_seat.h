// SPDX-License-Identifier: Apache-2.0
// LeaseSeat: who holds an address, decided by its Lease: this node answers on a segment while it
// holds the Lease and can use the segment. Announces when it takes the address, as often as nodes
// that decide by priority do. A machine that has the address and is no agent is not argued with: as
// long as it is heard, this node is silent and does not want the Lease. Other agents' claims say
// nothing: the Lease does.
#pragma once

#include <memory>

#include "netproxy/announce/address_lease.h"
#include "netproxy/announce/announcing.h"
#include "netproxy/announce/election.h"

namespace holdfast::netproxy::announce {

class LeaseSeat : public Election {
 public:
  // `lease` is shared with who carries out its requests, and with seats on other segments.
  LeaseSeat(std::shared_ptr<AddressLease> lease, const MacAddress& own, BootTime now);
  ~LeaseSeat() override { lease_->Unwant(this); }

  Deeds Tick(BootTime now) override;
  Deeds Hear(const Claim& claim, BootTime now) override;
  Deeds LoseSight(BootTime now) override;
  bool MayAnswer(BootTime now) const override;
  std::string Describe(BootTime now) const override;

 private:
  void Listen(BootTime now);
  bool StrangerIsThere(BootTime now) const;

  const std::shared_ptr<AddressLease> lease_;
  const MacAddress own_;
  bool held_ = false;  // at the last tick
  Announcing announcing_;
  BootTime answer_from_;   // who has the address had time to say so
  BootTime wanted_until_;  // what the Lease was told
  BootTime ask_at_;        // whether a stranger has it
  std::optional<MacAddress> stranger_;
  BootTime stranger_heard_at_;
};

}  // namespace holdfast::netproxy::announce
