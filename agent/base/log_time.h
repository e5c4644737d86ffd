// SPDX-License-Identifier: Apache-2.0
// RFC 3339 with nanoseconds, as CRI log files and our own lines carry it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "holdfast/base/clock.h"

namespace holdfast::agent {

// "2026-11-21T07:19:36.012345678Z"; always nine digits.
std::string FormatLogTime(WallTime time);

// Zero to nine digits of a second, "Z" or an offset ("+02:00"). nullopt: not a time.
std::optional<WallTime> ParseLogTime(std::string_view text);

}  // namespace holdfast::agent
