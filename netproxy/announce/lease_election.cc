// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/lease_election.h"

#include <algorithm>

#include "holdfast/base/strings.h"
#include "netproxy/announce/election.h"

namespace holdfast::netproxy::announce {
namespace {

constexpr std::chrono::milliseconds kRenewEvery{500};
constexpr std::chrono::milliseconds kReadEvery{1000};
constexpr std::chrono::milliseconds kRetryAfter{250};

}  // namespace

std::string LeaseName(const IpAddress& address) {
  constexpr char kDigits[] = "0123456789abcdef";
  if (!address.v6) return StrCat("holdfast-address-", address.ToString());
  std::string out = "holdfast-address";
  for (size_t i = 0; i < 16; ++i) {
    if (i % 2 == 0) out += '-';
    out += kDigits[address.bytes[i] >> 4];
    out += kDigits[address.bytes[i] & 15];
  }
  return out;
}

bool LeaseElection::IsFree(BootTime now) const {
  if (knowledge_ == Knowledge::kNothing) return false;
  if (knowledge_ == Knowledge::kLease && seen_.holder.empty()) return true;
  return now - seen_at_ >= kPatience;
}

LeaseRecord LeaseElection::Own(WallTime wall) const {
  LeaseRecord own = seen_;
  if (own.holder != identity_) {
    ++own.transitions;
    own.acquired = wall;
  }
  own.holder = identity_;
  own.duration = std::chrono::duration_cast<std::chrono::seconds>(kPatience);
  own.renewed = wall;
  return own;
}

LeaseRequest LeaseElection::Send(LeaseRequest::Kind kind, LeaseRecord record, BootTime now) {
  outstanding_ = kind;
  sent_at_ = now;
  return {kind, std::move(record)};
}

std::optional<LeaseRequest> LeaseElection::Next(BootTime now, WallTime wall, bool wanted) {
  if (wanted_ && !wanted) next_at_ = now;  // others wait for it
  wanted_ = wanted;
  if (!wanted) answer_until_ = 0;
  if (outstanding_ || now < next_at_) return std::nullopt;
  if (!wanted) {
    take_ = false;
    if (!IsMine()) {
      knowledge_ = Knowledge::kNothing;  // nobody looks any more, so what was seen grows old
      return std::nullopt;
    }
    LeaseRecord free = seen_;
    free.holder.clear();
    return Send(LeaseRequest::Kind::kUpdate, std::move(free), now);
  }
  if (IsMine()) return Send(LeaseRequest::Kind::kUpdate, Own(wall), now);
  if (!std::exchange(take_, false)) return Send(LeaseRequest::Kind::kGet, {}, now);
  const bool create = knowledge_ == Knowledge::kNoLease;
  return Send(create ? LeaseRequest::Kind::kCreate : LeaseRequest::Kind::kUpdate, Own(wall), now);
}

void LeaseElection::See(Knowledge knowledge, const LeaseRecord& record, BootTime now) {
  if (knowledge == knowledge_ && record.version == seen_.version) return;
  knowledge_ = knowledge;
  seen_ = record;
  seen_at_ = now;
}

void LeaseElection::AfterRead(BootTime now) {
  if (IsMine()) {  // a request whose answer was lost: renewing tells whether it still is
    next_at_ = now;
    return;
  }
  answer_until_ = 0;
  take_ = IsFree(now);
  next_at_ = take_ ? now : std::min(now + kReadEvery, std::max(now, seen_at_ + kPatience));
}

void LeaseElection::Done(const Result<LeaseRecord>& answer, BootTime now) {
  const bool read = std::exchange(outstanding_, std::nullopt) == LeaseRequest::Kind::kGet;
  if (answer) {
    See(Knowledge::kLease, *answer, now);
    if (read) return AfterRead(now);
    // From the moment of sending: the server may have written it any time since then.
    if (wanted_ && IsMine()) answer_until_ = (sent_at_ + kFence).since_boot.count();
    next_at_ = now + kRenewEvery;
    return;
  }
  const Code code = answer.error().code();
  if (read && code == Code::kNotFound) {
    See(Knowledge::kNoLease, {}, now);
    return AfterRead(now);
  }
  const bool stale =
      code == Code::kConflict || code == Code::kAlreadyExists || code == Code::kNotFound;
  if (!read && stale) knowledge_ = Knowledge::kNothing;  // somebody was faster; look again
  next_at_ = now + (stale ? std::chrono::milliseconds(0) : kRetryAfter);
}

}  // namespace holdfast::netproxy::announce
