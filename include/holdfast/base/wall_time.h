// SPDX-License-Identifier: Apache-2.0
// WallTimeOf: a time of somebody else's as one of ours. Many say a year far away for "never": 9999 (RFC 5280, 4.1.2.5), 1.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "holdfast/base/clock.h"

namespace holdfast {

// `seconds` since 1970 and `nanos` below a second. Nanoseconds in 64 bits count to the year 2262, and two times that are
// subtracted must not be further apart: what is before 1800 or after 2262 is the nearest of those.
inline WallTime WallTimeOf(int64_t seconds, int64_t nanos = 0) {
  constexpr int64_t kFirst = -5'364'662'400;  // 1800-01-01T00:00:00Z
  constexpr int64_t kLast = 9'223'372'035;    // 2262-04-11T23:47:15Z
  return {std::chrono::seconds(std::clamp(seconds, kFirst, kLast)) +
          std::chrono::nanoseconds(nanos % 1'000'000'000)};
}

}  // namespace holdfast
