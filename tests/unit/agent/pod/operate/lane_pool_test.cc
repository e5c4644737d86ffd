// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/lane_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <latch>
#include <string>
#include <thread>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

std::unique_ptr<LanePool> Start(std::vector<size_t> bounds) {
  auto pool = LanePool::Start(std::move(bounds));
  EXPECT_TRUE(pool);
  return std::move(*pool);
}

TEST(LanePoolTest, RunsNoMoreThanALanesBoundAtATime) {
  std::atomic<int> now{0}, most{0}, done{0};
  std::promise<void> all;
  const auto pool = Start({3, 2});
  for (int i = 0; i < 60; ++i) {
    pool->Post(0, [&] {
      const int n = ++now;
      int seen = most.load();
      while (n > seen && !most.compare_exchange_weak(seen, n)) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --now;
      if (++done == 60) all.set_value();
    });
  }
  ASSERT_EQ(all.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_LE(most.load(), 3);
  EXPECT_GE(most.load(), 2);
}

TEST(LanePoolTest, AfterABurstOneThreadIsLeftAndThatIsTold) {
  std::promise<void> calm;
  std::atomic<int> calms{0};
  auto pool = LanePool::Start({4}, {.idle = std::chrono::milliseconds(20), .calm = [&] {
                                      if (++calms == 1) calm.set_value();
                                    }});
  ASSERT_TRUE(pool);
  std::latch together(4);
  for (int i = 0; i < 4; ++i) {
    (*pool)->Post(0, [&] { together.arrive_and_wait(); });
  }
  ASSERT_EQ(calm.get_future().wait_for(kPatience), std::future_status::ready);
  // The one that is left works, and its rest is no burst's end.
  for (int i = 0; i < 3; ++i) {
    std::promise<void> ran;
    (*pool)->Post(0, [&] { ran.set_value(); });
    ASSERT_EQ(ran.get_future().wait_for(kPatience), std::future_status::ready);
    // Three times what it rests: that nothing happens then has no event to wait for.
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  }
  // On a busy machine it may not be back from a job when the next one comes, which then gets a thread of its own.
  EXPECT_LT(calms.load(), 4);
}

// Which of the pool's threads runs what is posted now.
pid_t Runs(LanePool& pool) {
  std::promise<pid_t> thread;
  pool.Post(0, [&] { thread.set_value(::gettid()); });
  return thread.get_future().get();
}

// How often a thread of ours began to wait.
long Waits(pid_t thread) {
  std::ifstream status(StrCat("/proc/self/task/", thread, "/status"));
  const std::string text(std::istreambuf_iterator<char>(status), {});
  const std::string key = "\nvoluntary_ctxt_switches:";
  const size_t at = text.find(key);
  return at == std::string::npos ? -1 : std::atol(text.c_str() + at + key.size());
}

TEST(LanePoolTest, TheThreadThatStaysIsWokenForAJobAlone) {
  const auto pool = LanePool::Start({1}, {.idle = std::chrono::milliseconds(10)});
  ASSERT_TRUE(pool);
  const pid_t thread = Runs(**pool);
  // It goes from its job to its rest by itself, and shows that nowhere.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const long before = Waits(thread);
  // Ten times what others rest: that it is not woken then has no event to wait for.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(Waits(thread), before);
  EXPECT_GT(before, 0);
  EXPECT_EQ(Runs(**pool), thread);
}

TEST(LanePoolTest, OneStaysBesideThoseWhoseJobsGaveTheirPlacesBack) {
  std::promise<void> stuck, release;
  const auto pool = LanePool::Start({1}, {.idle = std::chrono::milliseconds(10)});
  ASSERT_TRUE(pool);
  const auto id = (*pool)->Post(0, [&] {
    stuck.set_value();
    release.get_future().wait();
  });
  stuck.get_future().wait();
  EXPECT_TRUE((*pool)->GiveBack(id));
  const pid_t other = Runs(**pool);
  // Ten times what it rests: that it does not end then has no event to wait for.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(Runs(**pool), other);
  release.set_value();
}

TEST(LanePoolTest, AStuckLaneHoldsUpNoOther) {
  std::promise<void> stuck, release, other_ran;
  const auto pool = Start({1, 1});
  pool->Post(0, [&] {
    stuck.set_value();
    release.get_future().wait();
  });
  stuck.get_future().wait();
  pool->Post(0, [] {});
  pool->Post(1, [&] { other_ran.set_value(); });
  EXPECT_EQ(other_ran.get_future().wait_for(kPatience), std::future_status::ready);
  release.set_value();
}

TEST(LanePoolTest, AJobThatGaveItsPlaceBackDoesNotHoldUpItsLane) {
  std::promise<void> stuck, release, other_ran;
  const auto pool = Start({1});
  const auto id = pool->Post(0, [&] {
    stuck.set_value();
    release.get_future().wait();
  });
  stuck.get_future().wait();
  pool->Post(0, [&] { other_ran.set_value(); });
  auto other = other_ran.get_future();
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_TRUE(pool->GiveBack(id));
  EXPECT_TRUE(pool->GiveBack(id)) << "once is enough";
  EXPECT_EQ(other.wait_for(kPatience), std::future_status::ready);
  release.set_value();
}

// Another thread that is just about to rest may come first, so it is not so each time; handed over it never would be.
TEST(LanePoolTest, WhatAJobPostsLastRunsOnItsOwnThread) {
  const auto pool = Start({1, 1});
  const auto runs_on_the_same = [&] {
    std::promise<bool> same;
    pool->Post(0, [&] {
      const auto thread = std::this_thread::get_id();
      pool->Post(1, [&, thread] { same.set_value(std::this_thread::get_id() == thread); });
    });
    return same.get_future().get();
  };
  bool same = false;
  for (int i = 0; i < 100 && !same; ++i) same = runs_on_the_same();
  EXPECT_TRUE(same);
}

TEST(LanePoolTest, WhatAJobPostsBesidesRunsBesideIt) {
  std::promise<void> first_ran, second_ran, both_ran;
  const auto pool = Start({1, 1, 1});
  pool->Post(0, [&] {
    // Each waits for the other: one thread alone would not come to an end.
    pool->Post(1, [&] {
      first_ran.set_value();
      second_ran.get_future().wait();
      both_ran.set_value();
    });
    pool->Post(2, [&] {
      first_ran.get_future().wait();
      second_ran.set_value();
    });
  });
  EXPECT_EQ(both_ran.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(LanePoolTest, OnlyWhatHasNotBegunCanBeCancelled) {
  std::promise<void> stuck, release;
  std::atomic<bool> ran{false};
  const auto pool = Start({1});
  const auto running = pool->Post(0, [&] {
    stuck.set_value();
    release.get_future().wait();
  });
  const auto waiting = pool->Post(0, [&] { ran = true; });
  stuck.get_future().wait();
  EXPECT_FALSE(pool->Cancel(running));
  EXPECT_TRUE(pool->Cancel(waiting));
  EXPECT_FALSE(pool->Cancel(waiting));
  release.set_value();
  pool->Stop();
  EXPECT_FALSE(ran);
}

TEST(LanePoolTest, StopDropsWhatWaitsAndWaitsForWhatRuns) {
  std::promise<void> began;
  std::atomic<bool> ended{false}, dropped_ran{false};
  const auto pool = Start({1});
  pool->Post(0, [&] {
    began.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pool->Post(0, [&] { dropped_ran = true; });
    ended = true;
  });
  pool->Post(0, [&] { dropped_ran = true; });
  began.get_future().wait();
  pool->Stop();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(dropped_ran);
}

// No more threads for this user: what is posted runs on those that are there.
TEST(LanePoolTest, GoesOnWhereNoFurtherThreadCanBeHad) {
  if (::geteuid() == 0 && ::setresuid(54321, 54321, 0) != 0) GTEST_SKIP() << "needs another user";
  std::atomic<int> done{0};
  std::promise<void> all;
  const auto pool = Start({4});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NPROC, &before), 0);
  const rlimit none{1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NPROC, &none), 0);
  for (int i = 0; i < 20; ++i) {
    pool->Post(0, [&] {
      if (++done == 20) all.set_value();
    });
  }
  EXPECT_EQ(all.get_future().wait_for(kPatience), std::future_status::ready);
  ASSERT_EQ(::setrlimit(RLIMIT_NPROC, &before), 0);
  if (::geteuid() == 54321) {
    EXPECT_EQ(::setresuid(0, 0, 0), 0);
  }
}

}  // namespace
}  // namespace holdfast::agent
