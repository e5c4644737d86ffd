// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/durations.h"

#include <ctime>

#include <array>

#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

// "<major><unit>" and, when it is not zero, "<minor><unit>".
std::string Pair(int64_t major, char major_unit, int64_t minor, char minor_unit) {
  return minor == 0 ? StrCat(major, major_unit) : StrCat(major, major_unit, minor, minor_unit);
}

}  // namespace

std::string HumanDuration(std::chrono::nanoseconds duration) {
  const int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  // A clock that differs by a second is no reason for a strange word.
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  if (seconds < 120) return StrCat(seconds, "s");
  const int64_t minutes = seconds / 60;
  if (minutes < 10) return Pair(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return StrCat(minutes, "m");
  const int64_t hours = minutes / 60;
  if (hours < 8) return Pair(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return StrCat(hours, "h");
  const int64_t days = hours / 24;
  if (hours < 24 * 8) return Pair(days, 'd', hours % 24, 'h');
  if (days < 365 * 2) return StrCat(days, "d");
  if (days < 365 * 8) return Pair(days / 365, 'y', days % 365, 'd');
  return StrCat(days / 365, "y");
}

std::string Age(WallTime then, WallTime now) {
  return then.IsZero() ? "<unknown>" : HumanDuration(now - then);
}

std::string LongTime(WallTime time) {
  const auto seconds = static_cast<time_t>(time.since_epoch / std::chrono::seconds(1));
  std::tm parts{};
  (void)::localtime_r(&seconds, &parts);  // fails only for years that do not fit into an int
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S %z", &parts);
  return text.data();
}

}  // namespace holdfast::agent::cli
