// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/keeper_watch.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/eventually.h"
#include "tests/unit/runtime/containers/sleeping_process.h"

namespace holdfast::runtime {
namespace {

using test_support::Eventually;

class KeeperWatchTest : public ::testing::Test {
 protected:
  void Start(PidFd holder) {
    auto watch = KeeperWatch::Start(
        std::move(holder), {.find = [this] { return ++looks_ < from_ ? PidFd() : next_.Open(); },
                            .start = [this] { ++starts_; }});
    ASSERT_TRUE(watch) << watch.error().message();
    watch_ = std::move(*watch);
  }
  bool WaitForLooks(int count) {
    return Eventually([&] { return looks_ >= count; });
  }

  const SleepingProcess first_, next_;  // holders
  std::atomic<int> looks_ = 0, starts_ = 0;
  int from_ = 1;  // the look that finds it again
  std::unique_ptr<KeeperWatch> watch_;
};

TEST_F(KeeperWatchTest, LooksWheneverTheHolderEnds) {
  Start(first_.Open());
  EXPECT_EQ(looks_, 0) << "it lives";
  first_.Kill();
  EXPECT_TRUE(WaitForLooks(1));
  next_.Kill();
  EXPECT_TRUE(WaitForLooks(2));
  EXPECT_EQ(starts_, 0) << "another had come by itself";
}

// One that was started answers a little later: who looked for it a second later had missed all exits until then.
TEST_F(KeeperWatchTest, LooksOftenAndStartsSeldom) {
  from_ = 6;
  Start(PidFd());
  ASSERT_TRUE(WaitForLooks(6));
  EXPECT_GE(starts_, 1);
  EXPECT_LT(starts_, 5) << "looks: " << looks_;
}

TEST_F(KeeperWatchTest, StartsItAgainWhenItDidNotCome) {
  from_ = 1000;
  Start(PidFd());
  EXPECT_TRUE(Eventually([&] { return starts_ >= 2; }));
}

}  // namespace
}  // namespace holdfast::runtime
