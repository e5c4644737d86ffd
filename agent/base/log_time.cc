// SPDX-License-Identifier: Apache-2.0
#include "agent/base/log_time.h"

#include <chrono>
#include <cstdio>

#include "holdfast/base/wall_time.h"

namespace holdfast::agent {
namespace {

// Takes `count` digits off the front.
std::optional<int> TakeNumber(std::string_view& text, size_t count) {
  if (text.size() < count) return std::nullopt;
  int value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool Take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<std::chrono::nanoseconds> TakeFraction(std::string_view& text) {
  if (!Take(text, '.')) return std::chrono::nanoseconds(0);
  int64_t nanos = 0;
  size_t digits = 0;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    if (++digits > 9) return std::nullopt;
    nanos = nanos * 10 + (text.front() - '0');
    text.remove_prefix(1);
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 9; ++digits) nanos *= 10;
  return std::chrono::nanoseconds(nanos);
}

std::optional<std::chrono::minutes> TakeOffset(std::string_view& text) {
  if (Take(text, 'Z')) return std::chrono::minutes(0);
  const bool negative = !text.empty() && text.front() == '-';
  if (!Take(text, '+') && !Take(text, '-')) return std::nullopt;
  const auto hours = TakeNumber(text, 2);
  if (!hours || !Take(text, ':')) return std::nullopt;
  const auto minutes = TakeNumber(text, 2);
  if (!minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  const std::chrono::minutes offset(*hours * 60 + *minutes);
  return negative ? -offset : offset;
}

}  // namespace

std::string FormatLogTime(WallTime time) {
  using std::chrono::floor;
  const std::chrono::sys_time<std::chrono::nanoseconds> point(time.since_epoch);
  const auto day = floor<std::chrono::days>(point);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(point - day);
  char text[64];
  std::snprintf(
      text, sizeof(text), "%04d-%02u-%02uT%02d:%02d:%02d.%09dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return text;
}

std::optional<WallTime> ParseLogTime(std::string_view text) {
  const auto year = TakeNumber(text, 4);
  if (!year || !Take(text, '-')) return std::nullopt;
  const auto month = TakeNumber(text, 2);
  if (!month || !Take(text, '-')) return std::nullopt;
  const auto day = TakeNumber(text, 2);
  if (!day || !Take(text, 'T')) return std::nullopt;
  const auto hour = TakeNumber(text, 2);
  if (!hour || !Take(text, ':')) return std::nullopt;
  const auto minute = TakeNumber(text, 2);
  if (!minute || !Take(text, ':')) return std::nullopt;
  const auto second = TakeNumber(text, 2);
  const auto fraction = TakeFraction(text);
  const auto offset = TakeOffset(text);
  if (!second || !fraction || !offset || !text.empty()) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const auto seconds = std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(*hour) +
                       std::chrono::minutes(*minute) + std::chrono::seconds(*second) - *offset;
  return WallTimeOf(seconds.count(), fraction->count());
}

}  // namespace holdfast::agent
