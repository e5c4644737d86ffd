// SPDX-License-Identifier: Apache-2.0
// PullRate: how often registries are asked for images: so many at once, and so many a second from
// then on. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace holdfast::runtime {

class PullRate {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `per_second` 0: no limit.
  PullRate(uint32_t per_second, uint32_t burst)
      : per_second_(per_second), burst_(burst), left_(burst) {}

  // Whether a pull may begin now; it counts then.
  bool TryTake(Time now);

 private:
  const double per_second_, burst_;
  std::mutex mutex_;  // what follows
  double left_;
  Time last_{};
};

}  // namespace holdfast::runtime
