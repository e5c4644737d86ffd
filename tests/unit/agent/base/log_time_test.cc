// SPDX-License-Identifier: Apache-2.0
#include "agent/base/log_time.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

TEST(LogTimeTest, RoundTripsAndRefuses) {
  const auto time = ParseLogTime("2026-11-21T07:19:36.012345678Z");
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(FormatLogTime(*time), "2026-11-21T07:19:36.012345678Z");
  EXPECT_EQ(FormatLogTime(*ParseLogTime("2026-11-21T09:19:36.5+02:00")),
            "2026-11-21T07:19:36.500000000Z");
  for (const char* bad :
       {"", "2026-11-21", "2026-13-21T07:19:36Z", "2026-11-21T07:19:36", "2026-11-21T25:19:36Z",
        "2026-11-21T07:19:36.1234567890Z", "2026-11-21T07:19:36Zx", "2026-02-30T07:19:36Z"}) {
    EXPECT_FALSE(ParseLogTime(bad).has_value()) << bad;
  }
}

// A container that has the directory of logs mounted may write any.
TEST(LogTimeTest, AYearThatIsFarAwayStaysOnItsSide) {
  EXPECT_GT(ParseLogTime("9999-12-31T23:59:59Z").value(), WallTime{std::chrono::hours(1'000'000)});
  EXPECT_LT(ParseLogTime("0001-01-01T00:00:00Z").value(), WallTime{});
}

}  // namespace
}  // namespace holdfast::agent
