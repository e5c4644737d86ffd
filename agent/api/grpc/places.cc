// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/places.h"

#include <algorithm>
#include <map>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

// Those that never made a call go first, then the longest unused.
bool GoesBefore(const Occupant& one, const Occupant& other) {
  return std::pair(one.ever_called, one.last_use) < std::pair(other.ever_called, other.last_use);
}

std::string WhoHasMost(const std::vector<Occupant>& occupants) {
  std::map<pid_t, uint32_t> held;
  for (const Occupant& one : occupants) ++held[one.process];
  const auto [process, count] =
      *std::ranges::max_element(held, {}, [](auto& h) { return h.second; });
  return StrCat(count, " of them are of process ", process);
}

Result<std::optional<Leaving>> MakeRoomInReserve(std::vector<Occupant> occupants,
                                                 const std::string& full,
                                                 const ConnectionLimits& limits,
                                                 Occupant::Time now) {
  if (occupants.size() < size_t{limits.per_uid} + limits.reserve) return std::nullopt;
  if (limits.reserve == 0) return Unavailable(full);
  const auto first = occupants.begin() + limits.per_uid;
  std::ranges::nth_element(occupants, first, {}, &Occupant::id);
  if (now - first->began < kReserveTime) return Unavailable(full);
  return Leaving{
      first->id, http2::ErrorCode::kEnhanceYourCalm,
      StrCat(full, ". This connection was beyond the limit and makes room for the next")};
}

}  // namespace

Result<std::optional<Leaving>> MakeRoom(uid_t uid, std::vector<Occupant> occupants,
                                        const ConnectionLimits& limits, Occupant::Time now) {
  if (occupants.size() < limits.per_uid) return std::nullopt;
  const std::string full = StrCat("too many connections of uid ", uid, ", limit ", limits.per_uid);
  const auto working = std::ranges::partition(occupants, &Occupant::idle);
  const auto victim = std::min_element(occupants.begin(), working.begin(), GoesBefore);
  if (victim != working.begin()) {
    return Leaving{victim->id, http2::ErrorCode::kNoError,
                   StrCat(full, ": the longest unused makes room")};
  }
  const std::string all_work =
      StrCat(full, "; all have calls at work, ", WhoHasMost(occupants), ": end some");
  return MakeRoomInReserve(std::move(occupants), all_work, limits, now);
}

}  // namespace holdfast::agent::api
