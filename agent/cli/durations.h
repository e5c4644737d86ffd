// SPDX-License-Identifier: Apache-2.0
// Ages as kubectl shows them, and durations as its flags take them. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/base/clock.h"

namespace holdfast::agent::cli {

// "59s", "5m12s", "47m", "3h5m", "26h", "2d4h", "90d", "2y40d"; "<invalid>" when clearly negative.
std::string HumanDuration(std::chrono::nanoseconds duration);

// HumanDuration from `then` to `now`, "<unknown>" for the zero time.
std::string Age(WallTime then, WallTime now);

// "2026-11-21T07:19:36Z" -> "Sat, 21 Nov 2026 08:19:36 +0100", kubectl's long form: the time of the
// reader's zone (TZ, /etc/localtime).
std::string LongTime(WallTime time);

}  // namespace holdfast::agent::cli
