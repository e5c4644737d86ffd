// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/lock_file.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "holdfast/sys/files.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::sys {
namespace {

using std::chrono::milliseconds;

class LockFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "holdfast-lock-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
    dir_ = *OpenDir(path_);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  std::string path_;
  DirFd dir_;
};

TEST_F(LockFileTest, OneAtATime) {
  auto first = TakeLock(dir_.get(), "lock");
  ASSERT_TRUE(first);
  const auto second = TakeLock(dir_.get(), "lock", milliseconds(30));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kConflict);
  EXPECT_EQ(second.error().message(), "lock lock: another process holds it");
  first->Reset();
  EXPECT_TRUE(TakeLock(dir_.get(), "lock", milliseconds(0)));
}

// An agent that was started right after the former one was killed once gave up at once.
TEST_F(LockFileTest, OneThatIsJustBeingGivenUpIsWaitedFor) {
  auto first = TakeLock(dir_.get(), "lock");
  ASSERT_TRUE(first);
  std::thread dying([&] {
    std::this_thread::sleep_for(milliseconds(100));
    first->Reset();
  });
  EXPECT_TRUE(TakeLock(dir_.get(), "lock", std::chrono::seconds(20)));
  dying.join();
}

TEST(WakeupTest, IsReadableFromSetToClear) {
  const auto wakeup = Wakeup::Make();
  ASSERT_TRUE(wakeup);
  pollfd readable{wakeup->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
  wakeup->Clear();  // not set: nothing happens
  wakeup->Set();
  wakeup->Set();
  EXPECT_EQ(::poll(&readable, 1, 0), 1);
  wakeup->Clear();
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
  EXPECT_FALSE(Wakeup().valid());
}

}  // namespace
}  // namespace holdfast::sys
