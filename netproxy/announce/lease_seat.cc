// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/lease_seat.h"

#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::announce {

LeaseSeat::LeaseSeat(std::shared_ptr<AddressLease> lease, const MacAddress& own, BootTime now)
    : lease_(std::move(lease)), own_(own) {
  Listen(now);
}

void LeaseSeat::Listen(BootTime now) {
  held_ = false;
  answer_from_ = now + kPatience;
  ask_at_ = now;
}

bool LeaseSeat::StrangerIsThere(BootTime now) const {
  return stranger_ && now - stranger_heard_at_ < kPatience;
}

bool LeaseSeat::MayAnswer(BootTime now) const {
  return now >= answer_from_ && now < wanted_until_ && lease_->MayAnswer(now);
}

Deeds LeaseSeat::Tick(BootTime now) {
  Deeds deeds;
  if (!StrangerIsThere(now)) {
    wanted_until_ = now + kFence;
    lease_->Want(this, wanted_until_);
  }
  const bool before = std::exchange(held_, MayAnswer(now));
  if (held_ && !before) {
    deeds.news = "this node has its Lease and answers for it now";
    announcing_.Begin(now);
  } else if (before && !held_) {
    deeds.news = StrCat("this node answers for it no longer: ", lease_->Describe());
  }
  if (held_) {
    deeds.announce = announcing_.IsDue(now);
  } else if (now >= ask_at_) {
    deeds.ask = true;
    if (StrangerIsThere(now)) deeds.whom = stranger_;
    ask_at_ = now + kAskEvery;
  }
  return deeds;
}

Deeds LeaseSeat::Hear(const Claim& claim, BootTime now) {
  Deeds deeds;
  if (claim.mac == own_ || claim.priority) return deeds;
  if (MayAnswer(now) || !StrangerIsThere(now)) {
    deeds.news = StrCat(ToString(claim.mac), " has it and is no agent of ours; this node does ",
                        held_ ? "no longer" : "not", " answer for it");
  }
  stranger_ = claim.mac;
  stranger_heard_at_ = now;
  wanted_until_ = now;  // silent first
  lease_->Unwant(this);
  Listen(now);
  return deeds;
}

Deeds LeaseSeat::LoseSight(BootTime now) {
  Deeds deeds;
  if (held_) deeds.news = "the segment cannot be reached; this node answers for it no longer";
  wanted_until_ = now;
  lease_->Unwant(this);
  Listen(now);
  return deeds;
}

std::string LeaseSeat::Describe(BootTime now) const {
  if (MayAnswer(now)) return "held by this node, which has its Lease";
  if (StrangerIsThere(now)) {
    return StrCat("held by ", ToString(*stranger_), ", which is no agent of ours");
  }
  return lease_->Describe();
}

}  // namespace holdfast::netproxy::announce
