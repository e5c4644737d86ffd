// SPDX-License-Identifier: Apache-2.0
#include "holdfast/base/wall_time.h"

#include <gtest/gtest.h>

#include <limits>

namespace holdfast {
namespace {

constexpr WallTime kNow{std::chrono::seconds(1'795'000'000)};

TEST(WallTimeOfTest, IsExactInOurCenturies) {
  EXPECT_EQ(WallTimeOf(1, 5), WallTime{std::chrono::nanoseconds(1'000'000'005)});
  EXPECT_EQ(WallTimeOf(-1), WallTime{std::chrono::seconds(-1)});
}

// 9999 means never, and 1 that it was never set: neither may come out on the other side of now.
TEST(WallTimeOfTest, WhatIsFarAwayStaysOnItsSide) {
  for (const int64_t seconds : {253'402'300'799, std::numeric_limits<int64_t>::max()}) {
    EXPECT_GT(WallTimeOf(seconds) - kNow, std::chrono::hours(24 * 365 * 200)) << seconds;
  }
  for (const int64_t seconds : {-62'135'596'800, std::numeric_limits<int64_t>::min()}) {
    EXPECT_GT(kNow - WallTimeOf(seconds), std::chrono::hours(24 * 365 * 200)) << seconds;
  }
}

}  // namespace
}  // namespace holdfast
