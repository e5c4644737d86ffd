// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/address_lease.h"

#include "holdfast/base/strings.h"
#include "netproxy/announce/election.h"

namespace holdfast::netproxy::announce {
namespace {

// What an election expects to hear of other nodes' doings.
bool IsTrouble(Code code) {
  return code != Code::kNotFound && code != Code::kConflict && code != Code::kAlreadyExists;
}

}  // namespace

void AddressLease::Want(const void* who, BootTime until) {
  const std::lock_guard lock(mutex_);
  wanted_until_[who] = until;
}

void AddressLease::Unwant(const void* who) {
  const std::lock_guard lock(mutex_);
  wanted_until_.erase(who);
}

std::string AddressLease::Describe() const {
  const std::lock_guard lock(mutex_);
  const std::string& holder = election_.holder();
  return StrCat(holder.empty() ? "nobody has its Lease, as far as is known"
                               : StrCat("its Lease was last seen with ", holder),
                trouble_.empty() ? "" : "; ", trouble_);
}

// Who stood still right before a frame has as long as with a renewal that fails.
std::optional<LeaseRequest> AddressLease::Next(BootTime now, WallTime wall) {
  constexpr auto kMargin = kPatience - kFence;
  const std::lock_guard lock(mutex_);
  std::erase_if(wanted_until_, [&](const auto& wanted) { return wanted.second + kMargin <= now; });
  return election_.Next(now, wall, !wanted_until_.empty());
}

std::string AddressLease::Done(const Result<LeaseRecord>& answer, BootTime now) {
  const std::lock_guard lock(mutex_);
  election_.Done(answer, now);
  const bool trouble = !answer && IsTrouble(answer.error().code());
  const bool before = !trouble_.empty();
  trouble_ = trouble ? answer.error().message() : "";
  if (trouble == before) return "";
  return trouble ? StrCat(trouble_, ", trying again") : "the API server answers again";
}

bool AddressLease::IsIdle() const {
  const std::lock_guard lock(mutex_);
  return election_.IsIdle();
}

}  // namespace holdfast::netproxy::announce
