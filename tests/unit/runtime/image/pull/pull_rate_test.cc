// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/pull_rate.h"

#include <gtest/gtest.h>

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int Taken(PullRate& rate, PullRate::Time now, int tries) {
  int taken = 0;
  for (int i = 0; i < tries; ++i) taken += rate.TryTake(now) ? 1 : 0;
  return taken;
}

TEST(PullRateTest, SoManyAtOnceAndSoManyASecond) {
  PullRate rate(5, 10);
  const PullRate::Time now{seconds(1000)};
  EXPECT_EQ(Taken(rate, now, 20), 10);
  EXPECT_EQ(Taken(rate, now + milliseconds(199), 20), 0);
  EXPECT_EQ(Taken(rate, now + milliseconds(401), 20), 2);
  EXPECT_EQ(Taken(rate, now + seconds(60), 20), 10) << "what is not used is not saved up";
}

TEST(PullRateTest, NoneIsNoLimit) {
  PullRate rate(0, 1);
  EXPECT_EQ(Taken(rate, PullRate::Time{}, 1000), 1000);
}

}  // namespace
}  // namespace holdfast::runtime
