// SPDX-License-Identifier: Apache-2.0
// Announcing: when a holder says unasked that it has an address. Pure, single-thread.
#pragma once

#include "holdfast/base/clock.h"

namespace holdfast::netproxy::announce {

class Announcing {
 public:
  // It was taken just now.
  void Begin(BootTime now) {
    done_ = 0;
    at_ = now;
  }
  // True when it is time; then it counts as done.
  bool IsDue(BootTime now) {
    if (now < at_) return false;
    ++done_;
    at_ = now + (done_ < kFirst ? kFirstEvery : kLaterEvery);
    return true;
  }

 private:
  // The first ones may get lost; later ones heal what a stray answer has spoilt.
  static constexpr int kFirst = 3;
  static constexpr std::chrono::milliseconds kFirstEvery{1000};
  static constexpr std::chrono::milliseconds kLaterEvery{10'000};

  int done_ = 0;
  BootTime at_;
};

}  // namespace holdfast::netproxy::announce
