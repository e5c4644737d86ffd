// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/times.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "holdfast/base/strings.h"
#include "holdfast/base/wall_time.h"
#include "k8s/meta/v1/time.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

// Reads exactly `count` digits.
bool Digits(std::string_view& text, size_t count, int* value) {
  if (text.size() < count) return false;
  const char* const begin = text.data();
  const auto [end, error] = std::from_chars(begin, begin + count, *value);
  if (error != std::errc() || end != begin + count || text[0] == '-') return false;
  text.remove_prefix(count);
  return true;
}

bool Letter(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text[0]) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// ".123" to nanoseconds; further digits than nine are read and dropped.
bool Fraction(std::string_view& text, int32_t* nanos) {
  *nanos = 0;
  if (!text.starts_with('.')) return true;
  text.remove_prefix(1);
  int32_t unit = 100'000'000;
  size_t count = 0;
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; ++count, text.remove_prefix(1)) {
    *nanos += (text[0] - '0') * unit;
    unit /= 10;
  }
  return count > 0;
}

// "Z" or "+hh:mm", in seconds.
bool Offset(std::string_view& text, int64_t* seconds) {
  *seconds = 0;
  if (Letter(text, "Zz")) return true;
  const bool negative = text.starts_with('-');
  int hours = 0;
  int minutes = 0;
  if (!Letter(text, "+-") || !Digits(text, 2, &hours) || !Letter(text, ":") ||
      !Digits(text, 2, &minutes) || hours > 23 || minutes > 59) {
    return false;
  }
  *seconds = (hours * 60 + minutes) * int64_t{60} * (negative ? -1 : 1);
  return true;
}

std::string Padded(int64_t value, size_t width) {
  std::string text = std::to_string(value);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

struct Unit {
  std::string_view name;
  int64_t nanos;
};
// Longer names first, so that "ms" is not read as minutes.
constexpr std::array<Unit, 8> kUnits = {{{"ns", 1},
                                         {"us", 1'000},
                                         {"µs", 1'000},
                                         {"μs", 1'000},
                                         {"ms", 1'000'000},
                                         {"s", kNanosPerSecond},
                                         {"m", 60 * kNanosPerSecond},
                                         {"h", 3600 * kNanosPerSecond}}};

// One "12.5ms".
bool DurationPart(std::string_view& text, int64_t* nanos) {
  int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  const bool has_whole = error == std::errc();
  if ((!has_whole && !text.starts_with('.')) || whole < 0 || text.starts_with('-')) return false;
  if (has_whole) text.remove_prefix(static_cast<size_t>(end - text.data()));
  int32_t billionths = 0;
  if (!Fraction(text, &billionths)) return false;
  for (const Unit& unit : kUnits) {
    if (!text.starts_with(unit.name)) continue;
    text.remove_prefix(unit.name.size());
    // A fraction has nine digits and an hour 3600 × 10^9: split to stay within 64 bits.
    const int64_t fraction = unit.nanos >= kNanosPerSecond
                                 ? unit.nanos / kNanosPerSecond * billionths
                                 : unit.nanos * billionths / kNanosPerSecond;
    return !__builtin_mul_overflow(whole, unit.nanos, nanos) &&
           !__builtin_add_overflow(*nanos, fraction, nanos);
  }
  return false;
}

// Without zeros at the end: 1500 of 1000 -> "1.5".
std::string Decimal(int64_t value, int64_t unit, size_t width) {
  std::string text = std::to_string(value / unit);
  if (value % unit == 0) return text;
  std::string fraction = Padded(value % unit, width);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return text + "." + fraction;
}

template <class T>
void Set(WallTime time, int64_t granularity, T* out) {
  out->Clear();
  if (time.IsZero()) return;
  const int64_t total = time.since_epoch.count();
  const int64_t seconds = std::chrono::floor<std::chrono::seconds>(time.since_epoch).count();
  const int64_t nanos = total - seconds * kNanosPerSecond;
  out->set_seconds(seconds);
  out->set_nanos(static_cast<int32_t>(nanos / granularity * granularity));
}

}  // namespace

std::optional<Timestamp> ParseRfc3339(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  Timestamp time;
  int64_t offset = 0;
  if (!Digits(text, 4, &year) || !Letter(text, "-") || !Digits(text, 2, &month) ||
      !Letter(text, "-") || !Digits(text, 2, &day) || !Letter(text, "Tt") ||
      !Digits(text, 2, &hour) || !Letter(text, ":") || !Digits(text, 2, &minute) ||
      !Letter(text, ":") || !Digits(text, 2, &second) || !Fraction(text, &time.nanos) ||
      !Offset(text, &offset) || !text.empty()) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  time.seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - offset;
  return time;
}

std::string FormatRfc3339(Timestamp time, int digits) {
  constexpr int64_t kYear0 = -62'167'219'200;
  constexpr int64_t kYear10000 = 253'402'300'800;
  const std::chrono::seconds since_epoch(std::clamp(time.seconds, kYear0, kYear10000 - 1));
  const auto day = std::chrono::floor<std::chrono::days>(since_epoch);
  const std::chrono::year_month_day date{std::chrono::sys_days(day)};
  const int64_t rest = (since_epoch - day).count();
  std::string text = StrCat(
      Padded(static_cast<int>(date.year()), 4), "-", Padded(static_cast<unsigned>(date.month()), 2),
      "-", Padded(static_cast<unsigned>(date.day()), 2), "T", Padded(rest / 3600, 2), ":",
      Padded(rest / 60 % 60, 2), ":", Padded(rest % 60, 2));
  if (digits > 0)
    text +=
        "." +
        Padded(std::clamp(time.nanos, 0, 999'999'999), 9).substr(0, static_cast<size_t>(digits));
  return text + "Z";
}

std::string FormatRfc3339(WallTime time, int digits) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time.since_epoch);
  const auto nanos = static_cast<int32_t>((time.since_epoch - seconds).count());
  return FormatRfc3339(Timestamp{seconds.count(), nanos}, digits);
}

std::optional<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return std::chrono::nanoseconds(0);
  if (text.empty()) return std::nullopt;
  int64_t total = 0;
  while (!text.empty()) {
    int64_t part = 0;
    if (!DurationPart(text, &part) || __builtin_add_overflow(total, part, &total)) {
      return std::nullopt;
    }
  }
  return std::chrono::nanoseconds(negative ? -total : total);
}

std::string FormatDuration(std::chrono::nanoseconds duration) {
  const int64_t count = duration.count();
  if (count == 0) return "0s";
  if (count == std::numeric_limits<int64_t>::min()) return "-2562047h47m16.854775808s";
  const int64_t nanos = count < 0 ? -count : count;
  const std::string sign = count < 0 ? "-" : "";
  if (nanos < 1'000) return StrCat(sign, nanos, "ns");
  if (nanos < 1'000'000) return sign + Decimal(nanos, 1'000, 3) + "µs";
  if (nanos < kNanosPerSecond) return sign + Decimal(nanos, 1'000'000, 6) + "ms";
  const int64_t minutes = nanos / (60 * kNanosPerSecond);
  std::string text = Decimal(nanos % (60 * kNanosPerSecond), kNanosPerSecond, 9) + "s";
  if (minutes > 0) text = StrCat(minutes % 60, "m", text);
  if (minutes >= 60) text = StrCat(minutes / 60, "h", text);
  return sign + text;
}

void SetTime(WallTime time, metav1::Time* out) { Set(time, kNanosPerSecond, out); }
void SetTime(WallTime time, metav1::MicroTime* out) { Set(time, 1'000, out); }
WallTime ToWallTime(Timestamp time) { return WallTimeOf(time.seconds, time.nanos); }
WallTime ToWallTime(const metav1::Time& time) { return ToWallTime({time.seconds(), time.nanos()}); }
WallTime ToWallTime(const metav1::MicroTime& time) {
  return ToWallTime({time.seconds(), time.nanos()});
}

}  // namespace holdfast::agent::kube
