// SPDX-License-Identifier: Apache-2.0
// Times and durations in their written forms. Pure; thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/kube/types_fwd.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent::kube {

struct Timestamp {
  int64_t seconds = 0;  // since 1970-01-01T00:00:00Z
  int32_t nanos = 0;
  bool operator==(const Timestamp&) const = default;
};

// RFC 3339 with any offset and up to nine digits of fraction; absent for everything else.
std::optional<Timestamp> ParseRfc3339(std::string_view text);

// "2026-11-21T07:20:09Z", with `digits` digits of fraction.
std::string FormatRfc3339(Timestamp time, int digits = 0);
std::string FormatRfc3339(WallTime time, int digits = 0);

// Go's form: "1h2m3.5s", "-5ms", "0s".
std::optional<std::chrono::nanoseconds> ParseDuration(std::string_view text);
std::string FormatDuration(std::chrono::nanoseconds duration);

// Between the project's clock and Kubernetes' messages; an empty message is the zero time. A year that nanoseconds in 64
// bits cannot count to (2262) is the last one that they can.
WallTime ToWallTime(Timestamp time);
void SetTime(WallTime time, metav1::Time* out);
void SetTime(WallTime time, metav1::MicroTime* out);
WallTime ToWallTime(const metav1::Time& time);
WallTime ToWallTime(const metav1::MicroTime& time);

}  // namespace holdfast::agent::kube
