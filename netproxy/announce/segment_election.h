// SPDX-License-Identifier: Apache-2.0
// SegmentElection: who holds an address, decided by the agents of one segment among themselves with
// nothing but ARP and NDP. Of those that hear each other the one with the highest priority holds
// it; among equals whoever has it keeps it. Agents that cannot hear each other each hold it: a
// divided segment gives two answers, and no protocol between two of them can prevent that.
//
// Listening: the node asks once a second. Who hears nobody for kPatience takes the address, the
// highest priority first; who hears a lower priority takes it away. Holding: it answers, announces,
// and yields to a higher priority. A machine that is no agent is never argued with. A holder that
// stood still for kFence listens again, as if it had just come.
#pragma once

#include "netproxy/announce/announcing.h"
#include "netproxy/announce/election.h"

namespace holdfast::netproxy::announce {

class SegmentElection : public Election {
 public:
  SegmentElection(const MacAddress& own, uint8_t priority, BootTime now);

  Deeds Tick(BootTime now) override;
  Deeds Hear(const Claim& claim, BootTime now) override;
  Deeds LoseSight(BootTime now) override;
  bool MayAnswer(BootTime now) const override { return holding_ && now < answer_until_; }
  std::string Describe(BootTime now) const override;

 private:
  void Listen(BootTime now);
  void ListenAgainIfStill(BootTime now, Deeds& deeds);
  BootTime TakeAt() const;
  void Take(BootTime now, Deeds& deeds);
  bool Beats(const Claim& claim) const;

  const MacAddress own_;
  const uint8_t priority_;
  bool holding_ = false;
  BootTime last_tick_;
  std::optional<Claim> other_;  // who was heard last
  // Listening.
  BootTime since_;  // without a gap
  BootTime heard_at_;
  BootTime ask_at_;
  // Holding.
  BootTime answer_until_;
  Announcing announcing_;
  BootTime defend_at_;  // not before
};

}  // namespace holdfast::netproxy::announce
