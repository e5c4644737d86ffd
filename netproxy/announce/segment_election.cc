// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/segment_election.h"

#include <algorithm>
#include <tuple>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::announce {
namespace {

constexpr std::chrono::milliseconds kDefendEvery{1000};
// Lower priorities wait longer, so that they hear the highest one's announcement.
constexpr std::chrono::milliseconds kPerPriority{4};

}  // namespace

std::string ToString(const MacAddress& mac) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const uint8_t byte : mac) {
    if (!out.empty()) out += ':';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

SegmentElection::SegmentElection(const MacAddress& own, uint8_t priority, BootTime now)
    : own_(own), priority_(priority), last_tick_(now) {
  Listen(now);
}

void SegmentElection::Listen(BootTime now) {
  holding_ = false;
  since_ = now;
  heard_at_ = now;
  ask_at_ = now;
}

// What was said while we stood still was not heard; whoever was asked by us got no ear.
void SegmentElection::ListenAgainIfStill(BootTime now, Deeds& deeds) {
  if (now - last_tick_ < kFence) return;
  if (holding_) deeds.news = "this agent stood still; it asks again who has the address";
  other_.reset();
  Listen(now);
}

BootTime SegmentElection::TakeAt() const {
  const bool lower = other_ && other_->priority && *other_->priority < priority_;
  const BootTime quiet_since = lower ? since_ : std::max(since_, heard_at_);
  return quiet_since + kPatience + kPerPriority * (255 - priority_);
}

void SegmentElection::Take(BootTime now, Deeds& deeds) {
  holding_ = true;
  answer_until_ = now + kFence;
  announcing_.Begin(now);
  defend_at_ = now;
  deeds.news = "this node answers for it now";
  if (other_) deeds.news += StrCat(", ", ToString(other_->mac), " did before");
  other_.reset();
  deeds.announce = announcing_.IsDue(now);
}

Deeds SegmentElection::Tick(BootTime now) {
  Deeds deeds;
  ListenAgainIfStill(now, deeds);
  last_tick_ = now;
  if (holding_) {
    answer_until_ = now + kFence;
    deeds.announce = announcing_.IsDue(now);
  } else if (now >= TakeAt()) {
    Take(now, deeds);
  } else if (now >= ask_at_) {
    deeds.ask = true;
    if (other_ && now - heard_at_ < kFence) deeds.whom = other_->mac;
    ask_at_ = now + kAskEvery;
  }
  return deeds;
}

bool SegmentElection::Beats(const Claim& claim) const {
  if (!claim.priority) return true;  // a machine that has the address by right, for all we know
  return std::tie(*claim.priority, claim.mac) > std::tie(priority_, own_);
}

Deeds SegmentElection::Hear(const Claim& claim, BootTime now) {
  Deeds deeds;
  if (claim.mac == own_) return deeds;
  ListenAgainIfStill(now, deeds);
  if (holding_ && !Beats(claim)) {
    if (now < defend_at_) return deeds;
    defend_at_ = now + kDefendEvery;
    deeds.announce = true;
    deeds.news = StrCat(ToString(claim.mac), " answered for it too; it has to yield to this node");
    return deeds;
  }
  if (holding_) {
    Listen(now);
    deeds.news = StrCat(
        ToString(claim.mac),
        claim.priority ? " answers for it now, as an agent" : " has it and is no agent of ours",
        "; this node does no longer");
  }
  heard_at_ = now;
  other_ = claim;
  return deeds;
}

Deeds SegmentElection::LoseSight(BootTime now) {
  Deeds deeds;
  if (holding_) deeds.news = "the segment cannot be reached; this node answers for it no longer";
  other_.reset();
  Listen(now);
  last_tick_ = now;
  return deeds;
}

std::string SegmentElection::Describe(BootTime now) const {
  if (MayAnswer(now)) return StrCat("held by this node, priority ", static_cast<int>(priority_));
  if (!other_ || now - heard_at_ >= kPatience) return "this node waits for others to answer";
  const std::string who = ToString(other_->mac);
  if (!other_->priority) return StrCat("held by ", who, ", which is no agent of ours");
  return StrCat("held by ", who, ", priority ", static_cast<int>(*other_->priority));
}

}  // namespace holdfast::netproxy::announce
