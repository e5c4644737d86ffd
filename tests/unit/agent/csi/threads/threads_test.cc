// SPDX-License-Identifier: Apache-2.0
// What threads share about storage plugins. gRPC is left out: its library is not made for ThreadSanitizer.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "agent/csi/csi_drivers.h"
#include "agent/csi/volume_locks.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

void InThreads(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    auto thread = sys::StartThread("test", [&body, i] { body(i); });
    ASSERT_TRUE(thread);
    threads.push_back(std::move(*thread));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CsiThreadsTest, AVolumeIsOneThreadsAtATime) {
  VolumeLocks locks;
  int of_one = 0, of_other = 0;  // unprotected but for the locks
  InThreads([&](int i) {
    for (int round = 0; round < 500; ++round) {
      const VolumeLocks::Lock lock(locks, i % 2 == 0 ? "one" : "other");
      ++(i % 2 == 0 ? of_one : of_other);
    }
  });
  EXPECT_EQ(of_one, 1000);
  EXPECT_EQ(of_other, 1000);
}

TEST(CsiThreadsTest, DriversComeAndGoWhileTheyAreLookedFor) {
  CsiDrivers drivers;
  std::vector<size_t> told;  // protected by the order in which changes are told
  drivers.SetListener([&](const std::vector<CsiDriverInfo>& now) { told.push_back(now.size()); });
  InThreads([&](int i) {
    const std::string name = "driver-" + std::to_string(i);
    for (int round = 0; round < 200; ++round) {
      CsiDriver driver;
      driver.info.name = name;
      drivers.Put(std::move(driver));
      const auto found = drivers.Find(name);
      EXPECT_TRUE(found != nullptr && found->info.name == name);
      drivers.Remove(name, nullptr);
    }
  });
  EXPECT_EQ(told.size(), 1u + 4 * 200 * 2);
  EXPECT_EQ(told.back(), 0u);
}

}  // namespace
}  // namespace holdfast::agent
