// SPDX-License-Identifier: Apache-2.0
#include "agent/base/kept_threads.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <future>
#include <vector>

#include "holdfast/sys/thread.h"
#include "tests/support/eventually.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;

std::atomic<bool> g_is_refused = false;

int CreateUnlessRefused(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                        void* argument) {
  return g_is_refused ? EAGAIN : ::pthread_create(thread, attributes, body, argument);
}

class KeptThreadsTest : public ::testing::Test {
 protected:
  void TearDown() override { g_is_refused = false; }

  static void* Call(void* function) { return (*static_cast<std::function<void*()>*>(function))(); }

  int Start(pthread_t& thread, std::function<void*()>& body, bool detached = false) {
    return kept_.Start(&thread, detached, Call, &body);
  }

  KeptThreads& kept_ = *new KeptThreads(CreateUnlessRefused);
};

TEST_F(KeptThreadsTest, OneThatEndedIsTheNextAlsoWhenTheKernelHasNone) {
  std::vector<pid_t> ran;
  std::function<void*()> body = [&] {
    ran.push_back(::gettid());
    return &ran;
  };
  for (int i = 0; i < 3; ++i) {
    pthread_t thread{};
    ASSERT_EQ(Start(thread, body), 0);
    void* result = nullptr;
    EXPECT_EQ(kept_.Join(thread, &result), 0);
    EXPECT_EQ(result, &ran);
    EXPECT_EQ(kept_.Resting(), 1u);
    g_is_refused = true;
  }
  ASSERT_EQ(ran.size(), 3u);
  EXPECT_EQ(ran[0], ran[1]);
  EXPECT_EQ(ran[0], ran[2]);
}

TEST_F(KeptThreadsTest, WhileOneIsAtWorkAnotherIsMadeOrRefused) {
  std::promise<void> release;
  std::function<void*()> waits = [&] {
    release.get_future().wait();
    return nullptr;
  };
  std::function<void*()> ends = [] { return nullptr; };
  pthread_t first{}, second{}, third{};
  ASSERT_EQ(Start(first, waits), 0);
  ASSERT_EQ(Start(second, ends), 0);
  EXPECT_EQ(pthread_equal(first, second), 0);
  // Its end waits to be asked for: it is no other's yet.
  g_is_refused = true;
  EXPECT_EQ(Start(third, ends), EAGAIN);
  EXPECT_EQ(kept_.Join(second, nullptr), 0);
  EXPECT_EQ(Start(third, ends), 0);
  EXPECT_NE(pthread_equal(second, third), 0);
  EXPECT_EQ(kept_.Join(third, nullptr), 0);
  release.set_value();
  EXPECT_EQ(kept_.Join(first, nullptr), 0);
  EXPECT_EQ(kept_.Resting(), 2u);
}

TEST_F(KeptThreadsTest, OneThatIsDetachedRestsAtItsEnd) {
  std::atomic<bool> go = false;
  std::function<void*()> waits = [&] {
    EXPECT_TRUE(Eventually([&] { return go.load(); }));
    return nullptr;
  };
  pthread_t from_the_start{}, at_work{}, ended{};
  ASSERT_EQ(Start(from_the_start, waits, true), 0);
  EXPECT_EQ(kept_.Join(from_the_start, nullptr), EINVAL);
  ASSERT_EQ(Start(at_work, waits), 0);
  EXPECT_EQ(kept_.Detach(at_work), 0);
  EXPECT_EQ(kept_.Detach(at_work), EINVAL);
  EXPECT_EQ(kept_.Resting(), 0u);
  go = true;
  EXPECT_TRUE(Eventually([&] { return kept_.Resting() == 2; }));
  ASSERT_EQ(Start(ended, waits), 0);
  // Whether it has ended by then or not.
  EXPECT_EQ(kept_.Detach(ended), 0);
  EXPECT_TRUE(Eventually([&] { return kept_.Resting() == 2; }));
}

TEST_F(KeptThreadsTest, WhatIsReservedIsThereLater) {
  EXPECT_EQ(kept_.Reserve(3), 0);
  EXPECT_EQ(kept_.Resting(), 3u);
  g_is_refused = true;
  EXPECT_EQ(kept_.Reserve(3), 0);
  EXPECT_EQ(kept_.Reserve(4), EAGAIN);
  std::function<void*()> ends = [] { return nullptr; };
  std::vector<pthread_t> threads(3);
  for (pthread_t& thread : threads) EXPECT_EQ(Start(thread, ends), 0);
  for (const pthread_t thread : threads) EXPECT_EQ(kept_.Join(thread, nullptr), 0);
  EXPECT_EQ(kept_.Resting(), 3u);
}

TEST_F(KeptThreadsTest, OthersAreNotItsOwn) {
  EXPECT_EQ(kept_.Join(::pthread_self(), nullptr), std::nullopt);
  EXPECT_EQ(kept_.Detach(::pthread_self()), std::nullopt);
  pthread_t thread{};
  std::function<void*()> joins_itself = [&] {
    EXPECT_EQ(kept_.Join(::pthread_self(), nullptr), EDEADLK);
    return nullptr;
  };
  ASSERT_EQ(Start(thread, joins_itself), 0);
  EXPECT_EQ(kept_.Join(thread, nullptr), 0);
}

TEST_F(KeptThreadsTest, ManyAtOnceAreNoMoreThanWereAtWork) {
  constexpr int kAtOnce = 4, kRounds = 500;
  std::atomic<int> runs = 0;
  std::function<void*()> body = [&] {
    ++runs;
    return nullptr;
  };
  std::vector<std::thread> users;
  for (int user = 0; user < kAtOnce; ++user) {
    auto started = sys::StartThread("user", [&] {
      for (int round = 0; round < kRounds; ++round) {
        pthread_t thread{};
        ASSERT_EQ(Start(thread, body), 0);
        ASSERT_EQ(kept_.Join(thread, nullptr), 0);
      }
    });
    ASSERT_TRUE(started.has_value());
    users.push_back(std::move(*started));
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(runs, kAtOnce * kRounds);
  EXPECT_GE(kept_.Resting(), 1u);
  EXPECT_LE(kept_.Resting(), static_cast<size_t>(kAtOnce));
}

}  // namespace
}  // namespace holdfast::agent
