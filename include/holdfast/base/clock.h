// SPDX-License-Identifier: Apache-2.0
// Clock: the one seam through which time is read.
// Durations run on CLOCK_BOOTTIME (suspend counts, clock steps do not); wall time is for timestamps
// that a user sees and for deadlines that Kubernetes defines by a timestamp.
#pragma once

#include <ctime>

#include <chrono>
#include <compare>
#include <cstdint>

namespace holdfast {

// Nanoseconds since boot.
struct BootTime {
  std::chrono::nanoseconds since_boot{0};
  auto operator<=>(const BootTime&) const = default;
};
inline BootTime operator+(BootTime t, std::chrono::nanoseconds d) { return {t.since_boot + d}; }
inline std::chrono::nanoseconds operator-(BootTime a, BootTime b) {
  return a.since_boot - b.since_boot;
}

// Nanoseconds since 1970-01-01T00:00:00Z.
struct WallTime {
  std::chrono::nanoseconds since_epoch{0};
  auto operator<=>(const WallTime&) const = default;
  bool IsZero() const { return since_epoch.count() == 0; }
};
inline WallTime operator+(WallTime t, std::chrono::nanoseconds d) { return {t.since_epoch + d}; }
inline std::chrono::nanoseconds operator-(WallTime a, WallTime b) {
  return a.since_epoch - b.since_epoch;
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual BootTime Boot() const = 0;
  virtual WallTime Wall() const = 0;
};

// Thread-safe.
class SystemClock : public Clock {
 public:
  BootTime Boot() const override { return {Read(CLOCK_BOOTTIME)}; }
  WallTime Wall() const override { return {Read(CLOCK_REALTIME)}; }

 private:
  static std::chrono::nanoseconds Read(clockid_t id) {
    timespec ts{};
    ::clock_gettime(id, &ts);
    return std::chrono::seconds(ts.tv_sec) + std::chrono::nanoseconds(ts.tv_nsec);
  }
};

}  // namespace holdfast
