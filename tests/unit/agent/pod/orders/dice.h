// SPDX-License-Identifier: Apache-2.0
// Dice: the same throws for the same seed, with every compiler and library.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace holdfast::agent::orders {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15u + 1) {}

  // 0 … n - 1; n is small, so that the remainder is fair enough.
  int Below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  bool OneIn(int n) { return Below(n) == 0; }
  int Between(int least, int most) { return least + Below(most - least + 1); }
  std::chrono::milliseconds Millis(int least, int most) {
    return std::chrono::milliseconds(Between(least, most));
  }

 private:
  std::mt19937_64 engine_;  // its sequence is fixed by the standard, that of distributions is not
};

}  // namespace holdfast::agent::orders
