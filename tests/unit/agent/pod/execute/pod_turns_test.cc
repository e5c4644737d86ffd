// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/pod_turns.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <condition_variable>
#include <thread>

#include "agent/pod/operate/pod_operations.h"

namespace holdfast::agent {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// The machine's clock, and turns that are written down and can be held up.
class PodTurnsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto started = turns_.Start(std::vector<size_t>(kPodLanes, 4));
    ASSERT_TRUE(started) << started.error().message();
  }
  void TearDown() override {
    Hold(false);
    io_.stop();
    if (thread_.joinable()) thread_.join();
    turns_.Stop();
  }
  void Begin() {
    boost::asio::post(io_, [this] { turns_.Begin(); });
    thread_ = std::thread([this] { io_.run(); });
    while (!turns_.HasBegun()) std::this_thread::yield();
  }

  PodTurns::End Turn(const PodUid& uid) {
    std::unique_lock lock(mutex_);
    EXPECT_FALSE(running_[uid]) << uid.value << " has two turns at once";
    running_[uid] = true;
    ++begun_[uid];
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    running_[uid] = false;
    ++ended_[uid];
    changed_.notify_all();
    return next_;
  }
  void Hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void Next(PodTurns::End end) {
    const std::lock_guard lock(mutex_);
    next_ = end;
  }
  bool Begun(const PodUid& uid, int times) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(30), [&] { return begun_[uid] >= times; });
  }
  bool Ended(const PodUid& uid, int times) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(30), [&] { return ended_[uid] >= times; });
  }
  int EndedTimes(const PodUid& uid) {
    const std::lock_guard lock(mutex_);
    return ended_[uid];
  }

  const PodUid a_{"a"};
  const PodUid b_{"b"};
  SystemClock clock_;
  boost::asio::io_context io_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  PodTurns::End next_;
  std::map<PodUid, bool> running_;
  std::map<PodUid, int> begun_;
  std::map<PodUid, int> ended_;
  std::thread thread_;
  PodTurns turns_{io_, clock_, [this](const PodUid& uid) { return Turn(uid); }};
};

TEST_F(PodTurnsTest, WhoIsPokedBeforeTheBeginningIsNotHeard) {
  turns_.Poke(a_);
  Begin();
  turns_.Poke(b_);
  ASSERT_TRUE(Ended(b_, 1));
  EXPECT_EQ(EndedTimes(a_), 0);
}

TEST_F(PodTurnsTest, WhoIsPokedInATurnHasOneMoreAndOthersGoOn) {
  Begin();
  Hold(true);
  turns_.Poke(a_);
  ASSERT_TRUE(Begun(a_, 1));
  for (int i = 0; i < 5; ++i) turns_.Poke(a_);
  turns_.Poke(b_);
  ASSERT_TRUE(Begun(b_, 1));
  Hold(false);
  ASSERT_TRUE(Ended(a_, 2));
  ASSERT_TRUE(Ended(b_, 1));
  turns_.Poke(b_);
  ASSERT_TRUE(Ended(b_, 2));
  EXPECT_EQ(EndedTimes(a_), 2) << "five pokes within one turn are one turn more";
}

TEST_F(PodTurnsTest, OnlyThoseThatHaveATurnHaveAnotherOne) {
  Begin();
  turns_.Poke(b_);
  ASSERT_TRUE(Ended(b_, 1));
  Hold(true);
  turns_.Poke(a_);
  ASSERT_TRUE(Begun(a_, 1));
  turns_.PokeRunning();
  Hold(false);
  ASSERT_TRUE(Ended(a_, 2));
  EXPECT_EQ(EndedTimes(b_), 1);
}

TEST_F(PodTurnsTest, WakesWhoAskedForIt) {
  Begin();
  Next({.wake_at = clock_.Boot() + milliseconds(50)});
  turns_.Poke(a_);
  ASSERT_TRUE(Ended(a_, 1));
  Next({.wake_at = clock_.Boot() + hours(1)});
  ASSERT_TRUE(Ended(a_, 2));
}

TEST_F(PodTurnsTest, APokeTakesTheWakeBack) {
  Begin();
  Next({.wake_at = clock_.Boot() + milliseconds(300)});
  turns_.Poke(a_);
  ASSERT_TRUE(Ended(a_, 1));
  Next({});
  turns_.Poke(a_);
  ASSERT_TRUE(Ended(a_, 2));
  std::atomic<bool> later{false};
  turns_.RunAt(clock_.Boot() + milliseconds(600), [&] { later = true; });
  while (!later) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(EndedTimes(a_), 2);
}

TEST_F(PodTurnsTest, AnotherPodMayHaveTheUidOfOneThatIsGone) {
  Begin();
  Hold(true);
  turns_.Poke(a_);
  ASSERT_TRUE(Begun(a_, 1));
  Next({.gone = true});
  turns_.Forget(a_);
  running_[a_] = false;
  turns_.Poke(a_);  // the next one's
  ASSERT_TRUE(Begun(a_, 2));
  Hold(false);
  ASSERT_TRUE(Ended(a_, 2));
}

TEST_F(PodTurnsTest, JobsRunAtTheirTimeInTheirOrder) {
  std::vector<int> order;
  std::atomic<size_t> ran{0};
  const auto job = [&](int which) {
    return [&order, &ran, which] {
      order.push_back(which);  // on one thread
      ++ran;
    };
  };
  turns_.RunAt(clock_.Boot() + milliseconds(60), job(2));
  turns_.RunAt(clock_.Boot() + milliseconds(20), job(1));
  Begin();
  turns_.RunAt(clock_.Boot(), job(0));
  while (ran < 3) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(order, (std::vector{0, 1, 2}));
}

TEST_F(PodTurnsTest, WhatIsOverdueIsToldOnceAndHoldsNobodyUp) {
  Begin();
  Hold(true);
  for (int i = 0; i < 4; ++i) turns_.Poke(PodUid(std::to_string(i)));  // all the lane has
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Begun(PodUid(std::to_string(i)), 1));
  turns_.Poke(a_);
  EXPECT_TRUE(turns_.TakeOverdue(hours(1)).empty());
  const auto overdue = turns_.TakeOverdue(seconds(0));
  ASSERT_EQ(overdue.size(), 5u);  // one of them waits
  EXPECT_TRUE(Begun(a_, 1));
  EXPECT_TRUE(turns_.TakeOverdue(seconds(0)).empty());
  Hold(false);  // Stop() does not wait for those that gave their place back
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Ended(PodUid(std::to_string(i)), 1));
}

}  // namespace
}  // namespace holdfast::agent
