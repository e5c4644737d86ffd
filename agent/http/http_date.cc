// SPDX-License-Identifier: Apache-2.0
#include "agent/http/http_date.h"

#include <array>
#include <cstdio>

namespace holdfast::agent {

// Not strftime(3): its names follow the locale.
std::string HttpDate(std::time_t time) {
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  std::array<char, 64> text{};
  const int size = std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                                 kDays[utc.tm_wday], utc.tm_mday, kMonths[utc.tm_mon],
                                 utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
  return {text.data(), static_cast<size_t>(size)};
}

}  // namespace holdfast::agent
