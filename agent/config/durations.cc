// SPDX-License-Identifier: Apache-2.0
#include "agent/config/durations.h"

#include <charconv>
#include <cstdint>

#include "holdfast/base/strings.h"

namespace holdfast::agent {

Result<std::chrono::seconds> ParseDuration(const std::string& text) {
  int64_t total = 0;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at != end) {
    int64_t value = 0;
    const auto parsed = std::from_chars(at, end, value);
    if (parsed.ec != std::errc() || value < 0 || value > 1'000'000) break;
    at = parsed.ptr;
    const char unit = at == end ? 's' : *at++;
    const int64_t factor = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
    if (factor == 0) break;
    total += value * factor;
    if (at == end) return std::chrono::seconds(total);
  }
  return InvalidArgument(StrCat("\"", text, "\" is not a duration such as 300s or 5m"));
}

}  // namespace holdfast::agent
