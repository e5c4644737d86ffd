// SPDX-License-Identifier: Apache-2.0
// Work in another network namespace, seen by what a thread is in before, meanwhile and afterwards.
#include "holdfast/sys/netns.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

namespace holdfast::sys {
namespace {

ino_t NumberOf(int netns) {
  struct stat st{};
  EXPECT_EQ(::fstat(netns, &st), 0);
  return st.st_ino;
}

ino_t Here() {
  auto current = CurrentNetworkNamespace();
  return current ? NumberOf(current->get()) : 0;
}

class VisitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    auto home = CurrentNetworkNamespace();
    auto far = NewNetworkNamespace();
    ASSERT_TRUE(home && far);
    home_ = std::move(*home);
    far_ = std::move(*far);
  }

  NsFd home_, far_;
};

TEST_F(VisitTest, TheThreadIsThereMeanwhileAndNoOtherIs) {
  const ino_t before = Here();
  std::thread([&] {
    ASSERT_TRUE(VisitNetworkNamespace(far_.get(), home_, [&]() -> Result<void> {
      EXPECT_EQ(Here(), NumberOf(far_.get()));
      struct stat of_first_thread{};
      EXPECT_EQ(::stat("/proc/self/ns/net", &of_first_thread), 0);
      EXPECT_EQ(of_first_thread.st_ino, before);
      return {};
    }));
    EXPECT_EQ(Here(), before);
  }).join();
  EXPECT_NE(NumberOf(far_.get()), before);
}

TEST_F(VisitTest, ItComesBackFromWorkThatFails) {
  const ino_t before = Here();
  const auto done = VisitNetworkNamespace(
      far_.get(), home_, []() -> Result<void> { return InvalidArgument("as the work says"); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(), "as the work says");
  EXPECT_EQ(Here(), before);
}

TEST_F(VisitTest, WhatIsNoNetworkNamespaceIsNotEntered) {
  const ino_t before = Here();
  bool worked = false;
  const auto done = VisitNetworkNamespace(STDIN_FILENO, home_, [&]() -> Result<void> {
    worked = true;
    return {};
  });
  EXPECT_FALSE(done);
  EXPECT_FALSE(worked);
  EXPECT_EQ(Here(), before);
}

TEST_F(VisitTest, WhoCannotComeBackDoesNotGoOn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT((void)VisitNetworkNamespace(far_.get(), NsFd(), []() -> Result<void> { return {}; }),
              ::testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace holdfast::sys
