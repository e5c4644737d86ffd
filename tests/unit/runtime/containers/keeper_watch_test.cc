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
        std::move(holder), [this] { return ++revivals_ < from_ ? PidFd() : next_.Open(); });
    ASSERT_TRUE(watch) << watch.error().message();
    watch_ = std::move(*watch);
  }
  bool WaitForRevivals(int count) {
    return Eventually([&] { return revivals_ >= count; });
  }

  const SleepingProcess first_, next_;  // holders
  std::atomic<int> revivals_ = 0;
  int from_ = 1;  // the revival that brings it back
  std::unique_ptr<KeeperWatch> watch_;
};

TEST_F(KeeperWatchTest, RevivesTheKeeperWheneverItsHolderEnds) {
  Start(first_.Open());
  EXPECT_EQ(revivals_, 0) << "it lives";
  first_.Kill();
  EXPECT_TRUE(WaitForRevivals(1));
  next_.Kill();
  EXPECT_TRUE(WaitForRevivals(2));
}

TEST_F(KeeperWatchTest, TriesAgainUntilThereIsAHolder) {
  from_ = 3;
  Start(PidFd());
  EXPECT_TRUE(WaitForRevivals(3));
}

}  // namespace
}  // namespace holdfast::runtime
