// SPDX-License-Identifier: Apache-2.0
// The waker's thread, without protobuf, so that ThreadSanitizer sees every lock.
#include "agent/log/log_waker.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/sys/files.h"
#include "tests/support/eventually.h"
#include "tests/support/inotify_limit.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;

class LogWakerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "holdfast-log-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string dir_;
};

TEST_F(LogWakerTest, WakesForChangesAndTimesAndForgets) {
  LogWaker waker;
  const auto directory = sys::OpenDir(dir_);
  ASSERT_TRUE(directory.has_value());
  std::atomic<int> woken = 0;
  std::vector<LogWaker::Id> ids;
  for (int i = 0; i < 8; ++i) {
    const auto id = waker.Watch(directory->get(), [&] { ++woken; });
    ASSERT_TRUE(id.has_value());
    ids.push_back(*id);
  }
  std::ofstream(dir_ + "/0.log") << "x";
  EXPECT_TRUE(Eventually([&] { return woken >= 8; }));
  // Forgotten from several threads while changes go on.
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) std::ofstream(dir_ + "/0.log", std::ios::app) << "y";
  });
  std::vector<std::thread> forgetters;
  for (const LogWaker::Id id : ids) forgetters.emplace_back([&waker, id] { waker.Forget(id); });
  for (std::thread& forgetter : forgetters) forgetter.join();
  writer.join();
  const int after = woken;
  std::ofstream(dir_ + "/1.log") << "z";
  std::atomic<bool> timed = false;
  const auto last = waker.Watch(directory->get(), [&] { timed = true; });
  ASSERT_TRUE(last.has_value());
  waker.WakeAt(*last, LogWaker::Clock::now() + std::chrono::milliseconds(5));
  EXPECT_TRUE(Eventually([&] { return timed.load(); }));
  EXPECT_EQ(woken, after);
}

// A container of root can take all instances that root has on the machine.
TEST_F(LogWakerTest, WithoutInotifyItWakesEachSecond) {
  test_support::WithoutInotify([this] {
    LogWaker waker;
    const auto directory = sys::OpenDir(dir_);
    ASSERT_TRUE(directory.has_value());
    std::atomic<int> woken = 0;
    const auto id = waker.Watch(directory->get(), [&] { ++woken; });
    ASSERT_TRUE(id.has_value()) << id.error().message();
    EXPECT_TRUE(Eventually([&] { return woken >= 2; }));
    waker.Forget(*id);
    test_support::LimitInotify(8);
    std::atomic<int> told = 0;
    ASSERT_TRUE(waker.Watch(directory->get(), [&] { ++told; }).has_value());
    EXPECT_TRUE(Eventually([&] {
      std::ofstream(dir_ + "/0.log", std::ios::app) << "x";
      return told >= 50;
    })) << "followed again, not by the second";
  });
}

}  // namespace
}  // namespace holdfast::agent
