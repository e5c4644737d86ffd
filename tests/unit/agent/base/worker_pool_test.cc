// SPDX-License-Identifier: Apache-2.0
#include "agent/base/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "holdfast/sys/thread.h"
#include "tests/support/eventually.h"
#include "tests/support/refuse_threads/refuse_threads.h"

namespace holdfast::agent {
namespace {

using test::RefuseThreads;

constexpr auto kPatience = std::chrono::seconds(20);
constexpr uint64_t kAll = 1'000'000;

class WorkerPoolTest : public testing::Test {
 protected:
  ~WorkerPoolTest() override { RefuseThreads(0, 0); }
};

// Jobs that wait until they may end.
class Gate {
 public:
  std::function<void()> Job() {
    return [this] {
      ++began_;
      opened_.wait();
      ++ended_;
    };
  }
  void Open() { open_.set_value(); }
  int ended() const { return ended_; }
  void AwaitBegun(int count) const {
    while (began_ < count) std::this_thread::yield();
  }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
  std::atomic<int> began_{0};
  std::atomic<int> ended_{0};
};

void ExpectRun(WorkerPool& pool) {
  std::promise<void> ran;
  pool.Post([&] { ran.set_value(); });
  ASSERT_EQ(ran.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST_F(WorkerPoolTest, RunsNoMoreThanItsBoundAtATime) {
  std::atomic<int> now{0}, most{0}, done{0};
  std::promise<void> all;
  WorkerPool pool({.name = "test", .threads = 3});
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

TEST_F(WorkerPoolTest, TakesAsManyAsMayRunAndWait) {
  Gate gate;
  WorkerPool pool({.name = "jobs", .threads = 2, .queued = 1});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.TryPost(gate.Job()));
  const auto beyond = pool.TryPost(gate.Job());
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(beyond.error().message(), "too many jobs: 2 are at work and 1 may wait; try again");
  pool.Post(gate.Job());  // whatever the limit
  gate.Open();
  pool.Finish();
  EXPECT_EQ(gate.ended(), 4);
  EXPECT_EQ(pool.TryPost([] {}).error().code(), Code::kUnavailable);
}

TEST_F(WorkerPoolTest, FinishRunsWhatWaitsAndWhatComesLaterRunsInTheCaller) {
  std::atomic<int> ran{0};
  WorkerPool pool({.name = "test", .threads = 3});
  for (int i = 0; i < 500; ++i) pool.Post([&] { ++ran; });
  pool.Finish();
  EXPECT_EQ(ran, 500);
  std::thread::id runner;
  pool.Post([&] { runner = std::this_thread::get_id(); });
  EXPECT_EQ(runner, std::this_thread::get_id());
}

TEST_F(WorkerPoolTest, TheDestructorDropsWhatHasNotBegun) {
  Gate gate;
  auto pool = std::make_unique<WorkerPool>(WorkerPoolOptions{.name = "test", .threads = 1});
  pool->Post(gate.Job());
  gate.AwaitBegun(1);
  pool->Post(gate.Job());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the destructor has begun, or not
    gate.Open();
  });
  pool.reset();
  opener.join();
  EXPECT_EQ(gate.ended(), 1);
}

// What the kernel does at a limit on tasks. A refused thread once was counted all the same, and the
// pool's end waited for it for ever.
TEST_F(WorkerPoolTest, RefusedThreadsLeaveTheJobsToThoseThatAreThere) {
  WorkerPool pool({.name = "test", .threads = 4});
  ASSERT_TRUE(pool.Start());
  RefuseThreads(0, kAll);
  std::atomic<int> ran{0};
  for (int i = 0; i < 50; ++i) pool.Post([&] { ++ran; });
  ASSERT_TRUE(pool.TryPost([&] { ++ran; }));
  ExpectRun(pool);
  EXPECT_EQ(ran, 51);
}

TEST_F(WorkerPoolTest, EveryRefusalInTurnIsSurvived) {
  for (uint64_t skip = 0; skip < 6; ++skip) {
    RefuseThreads(0, 0);
    WorkerPool pool({.name = "test", .threads = 4});
    RefuseThreads(skip, 1);
    EXPECT_EQ(pool.Start().has_value(), skip != 0);
    ASSERT_TRUE(pool.Start()) << "the limit is lifted";
    Gate gate;
    for (int i = 0; i < 8; ++i) pool.Post(gate.Job());
    gate.AwaitBegun(1);
    gate.Open();
    ExpectRun(pool);
    pool.Finish();
    EXPECT_EQ(gate.ended(), 8) << "the start after " << skip << " was refused";
  }
}

TEST_F(WorkerPoolTest, WithoutAQueueARefusalIsSaid) {
  WorkerPool pool({.name = "sessions", .threads = 4, .queued = 0});
  RefuseThreads(0, kAll);
  const auto refused = pool.TryPost([] { FAIL() << "not taken, and run"; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(
      refused.error().message(),
      "start thread sessions: resource temporarily unavailable (a limit on tasks or on memory "
      "is reached)");
  RefuseThreads(0, 0);
  std::promise<void> ran;
  ASSERT_TRUE(pool.TryPost([&] { ran.set_value(); }));
  EXPECT_EQ(ran.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST_F(WorkerPoolTest, ThreadsAreTriedAllAtOnce) {
  EXPECT_TRUE(sys::TryThreads(5));
  RefuseThreads(4, 1);
  EXPECT_EQ(sys::TryThreads(5).error().code(), Code::kResourceExhausted);
  RefuseThreads(5, 1);
  EXPECT_TRUE(sys::TryThreads(5));
}

TEST_F(WorkerPoolTest, IsBusyAsLongAsAJobRunsOrWaits) {
  Gate first, second;
  WorkerPool pool({.name = "test", .threads = 1});
  EXPECT_FALSE(pool.IsBusy());
  pool.Post(first.Job());
  first.AwaitBegun(1);
  pool.Post(second.Job());
  EXPECT_TRUE(pool.IsBusy());
  first.Open();
  second.AwaitBegun(1);
  EXPECT_TRUE(pool.IsBusy());
  second.Open();
  EXPECT_TRUE(test_support::Eventually([&] { return !pool.IsBusy(); }));
}

TEST_F(WorkerPoolTest, RunsEverythingThatWasPostedFromManyThreads) {
  std::atomic<int> ran = 0;
  int accepted = 0;
  {
    WorkerPool workers({.name = "test", .threads = 3});
    std::mutex mutex;
    std::vector<std::thread> posters;
    for (int i = 0; i < 4; ++i) {
      posters.emplace_back([&] {
        for (int j = 0; j < 500; ++j) {
          const bool posted = workers.TryPost([&] { ++ran; }).has_value();
          const std::lock_guard lock(mutex);
          accepted += posted ? 1 : 0;
        }
      });
    }
    for (std::thread& poster : posters) poster.join();
    workers.Finish();
  }
  EXPECT_EQ(accepted, 2000);
  EXPECT_EQ(ran, 2000);
}

}  // namespace
}  // namespace holdfast::agent
