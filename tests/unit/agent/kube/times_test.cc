// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/times.h"

#include <gtest/gtest.h>

#include <limits>

#include "k8s/meta/v1/time.pb.h"

namespace holdfast::agent::kube {
namespace {

using std::chrono::nanoseconds;

TEST(TimesTest, ReadsAndWritesRfc3339) {
  EXPECT_EQ(ParseRfc3339("1970-01-01T00:00:00Z"), (Timestamp{0, 0}));
  EXPECT_EQ(ParseRfc3339("2026-11-21T07:20:09Z"), (Timestamp{1795245609, 0}));
  EXPECT_EQ(ParseRfc3339("2026-11-21T08:20:09.5+01:00"), (Timestamp{1795245609, 500'000'000}));
  EXPECT_EQ(FormatRfc3339({1795245609, 123'456'789}), "2026-11-21T07:20:09Z");
  EXPECT_EQ(FormatRfc3339({1795245609, 123'456'789}, 6), "2026-11-21T07:20:09.123456Z");
  EXPECT_EQ(FormatRfc3339({-1, 0}), "1969-12-31T23:59:59Z");
  const WallTime wall{std::chrono::nanoseconds(1'795'245'609'123'456'789)};
  EXPECT_EQ(FormatRfc3339(wall), "2026-11-21T07:20:09Z");
  EXPECT_EQ(FormatRfc3339(wall, 9), "2026-11-21T07:20:09.123456789Z");
  for (const char* text :
       {"", "2026-11-21", "2026-11-21 07:20:09Z", "2026-13-21T07:20:09Z", "2026-02-30T07:20:09Z",
        "2026-11-21T24:20:09Z", "2026-11-21T07:20:09", "2026-11-21T07:20:09.Z",
        "2026-11-21T07:20:09+0100", "2026-11-21T07:20:09Zx"}) {
    EXPECT_FALSE(ParseRfc3339(text).has_value()) << text;
  }
  // What comes over the wire may be anything.
  EXPECT_EQ(FormatRfc3339({std::numeric_limits<int64_t>::max(), 0}), "9999-12-31T23:59:59Z");
}

TEST(TimesTest, ReadsAndWritesDurations) {
  const std::pair<const char*, int64_t> cases[] = {{"0s", 0},
                                                   {"1ns", 1},
                                                   {"1.5µs", 1500},
                                                   {"20ms", 20'000'000},
                                                   {"1.5s", 1500000000},
                                                   {"1m0s", 60000000000},
                                                   {"1h2m3.5s", 3723500000000},
                                                   {"-5ms", -5'000'000}};
  for (const auto& [text, nanos] : cases) {
    EXPECT_EQ(ParseDuration(text), nanoseconds(nanos)) << text;
    EXPECT_EQ(FormatDuration(nanoseconds(nanos)), text);
  }
  EXPECT_EQ(ParseDuration("90m"), nanoseconds(5400000000000));
  EXPECT_EQ(ParseDuration("1.5h"), nanoseconds(5400000000000));
  EXPECT_EQ(ParseDuration("1us"), nanoseconds(1000));
  EXPECT_EQ(ParseDuration("0"), nanoseconds(0));
  for (const char* text : {"", "1", "s", "1x", "1h-2m", "9999999999h", "1.s", ".s"}) {
    EXPECT_FALSE(ParseDuration(text).has_value()) << text;
  }
}

TEST(TimesTest, ConvertsToAndFromMessages) {
  metav1::Time time;
  SetTime(WallTime{nanoseconds(1'500'000'000)}, &time);
  EXPECT_EQ(time.seconds(), 1);
  EXPECT_EQ(time.nanos(), 0);
  metav1::MicroTime micro;
  SetTime(WallTime{nanoseconds(1'500'001'999)}, &micro);
  EXPECT_EQ(micro.nanos(), 500'001'000);
  EXPECT_EQ(ToWallTime(micro), WallTime{nanoseconds(1'500'001'000)});
  SetTime(WallTime{}, &time);
  EXPECT_FALSE(time.has_seconds());
  EXPECT_TRUE(ToWallTime(time).IsZero());
  time.set_seconds(std::numeric_limits<int64_t>::max());
  EXPECT_GT(ToWallTime(time).since_epoch.count(), 0);
}

}  // namespace
}  // namespace holdfast::agent::kube
