// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/pod_locks.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace holdfast::runtime {
namespace {

TEST(PodLocksTest, OnePodsCallsTakeTurns) {
  PodLocks locks;
  int counter = 0;  // guarded by the pod's lock
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const auto guard = locks.Lock(PodUid("a"));
        ++counter;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 2000);
}

TEST(PodLocksTest, OtherPodsDoNotWait) {
  PodLocks locks;
  const auto guard = locks.Lock(PodUid("a"));
  EXPECT_FALSE(locks.TryLock(PodUid("a")));
  EXPECT_TRUE(locks.TryLock(PodUid("b")));
  EXPECT_TRUE(locks.TryLock(PodUid("b"))) << "released at the end of its guard";
}

}  // namespace
}  // namespace holdfast::runtime
