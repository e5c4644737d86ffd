// SPDX-License-Identifier: Apache-2.0
// Durations as settings have them. Pure.
#pragma once

#include <chrono>
#include <string>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// "300s", "5m", "1h30m", "90".
Result<std::chrono::seconds> ParseDuration(const std::string& text);

}  // namespace holdfast::agent
