// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace holdfast::agent {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

TEST(WorkerPoolTest, RunsNoMoreThanItsBoundAtATime) {
  std::atomic<int> now{0}, most{0}, done{0};
  std::promise<void> all;
  WorkerPool pool(3);
  for (int i = 0; i < 60; ++i) {
    pool.Post([&] {
      const int n = ++now;
      int seen = most.load();
      while (n > seen && !most.compare_exchange_weak(seen, n)) {
      }
      --now;
      if (++done == 60) all.set_value();
    });
  }
  ASSERT_EQ(all.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_LE(most.load(), 3);
}

TEST(WorkerPoolTest, AJobThatWasWrittenOffDoesNotHoldUpOthers) {
  std::promise<void> stuck_began, release, other_ran;
  WorkerPool pool(1);
  const auto id = pool.Post([&] {
    stuck_began.set_value();
    release.get_future().wait();
  });
  stuck_began.get_future().wait();
  pool.Post([&] { other_ran.set_value(); });
  auto other = other_ran.get_future();
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_TRUE(pool.WriteOff(id));
  EXPECT_EQ(other.wait_for(kPatience), std::future_status::ready);
  release.set_value();
}

TEST(WorkerPoolTest, AJobThatEndedCannotBeWrittenOff) {
  std::promise<void> ran;
  WorkerPool pool(1);
  const auto id = pool.Post([] {});
  pool.Post([&] { ran.set_value(); });
  ran.get_future().wait();
  EXPECT_FALSE(pool.WriteOff(id));
}

}  // namespace
}  // namespace holdfast::agent
