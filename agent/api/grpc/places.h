// SPDX-License-Identifier: Apache-2.0
// A user has so many connections. The next one takes the place of one of his that has no call at
// work, the longest unused first. When all of them work, a few more are let in, so that who follows
// 64 logs can still look and delete; beyond those the longest there of the few gives its place to
// the next, unless it has only just come: then the next is refused. Each is told in words. Pure.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/api/grpc/connection_limits.h"
#include "agent/api/grpc/http2_frames.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::api {

// So long a connection of the reserve is left alone.
inline constexpr std::chrono::seconds kReserveTime{2};

// One of a user's connections that are served.
struct Occupant {
  using Time = std::chrono::steady_clock::time_point;
  uint64_t id = 0;  // those that came later have higher ones
  pid_t process = 0;
  bool idle = false;  // no call at work
  bool ever_called = false;
  Time began;
  Time last_use;
};

// What makes room, and what it is told.
struct Leaving {
  uint64_t id = 0;
  http2::ErrorCode code = http2::ErrorCode::kNoError;
  std::string text;
};

// For one more of `uid`. nullopt: there is a place. kUnavailable with words for the client: there is none for it.
Result<std::optional<Leaving>> MakeRoom(uid_t uid, std::vector<Occupant> occupants,
                                        const ConnectionLimits& limits, Occupant::Time now);

}  // namespace holdfast::agent::api
