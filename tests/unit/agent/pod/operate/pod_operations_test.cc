// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/pod_operations.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

namespace holdfast::agent {
namespace {

Action Remove(const std::string& container) {
  return {Action::Kind::kRemove, container, ContainerId(container), 0, 0};
}

class PodOperationsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pool = LanePool::Start(std::vector<size_t>(kPodLanes, 1));
    ASSERT_TRUE(pool);
    pool_ = std::move(*pool);
    operations_ = std::make_unique<PodOperations>(*pool_, clock_, [this] {
      const std::lock_guard lock(mutex_);
      ++pokes_;
      poked_.notify_all();
    });
  }
  void TearDown() override { pool_->Stop(); }
  bool Poked(int times) {
    std::unique_lock lock(mutex_);
    return poked_.wait_for(lock, std::chrono::seconds(20), [&] { return pokes_ >= times; });
  }

  SystemClock clock_;
  std::mutex mutex_;
  std::condition_variable poked_;
  int pokes_ = 0;
  std::unique_ptr<LanePool> pool_;
  std::unique_ptr<PodOperations> operations_;
};

TEST_F(PodOperationsTest, AnOperationIsUnderWayUntilItsEndWasTaken) {
  std::promise<void> began, release;
  operations_->Begin(Remove("a"), [&](const std::atomic<bool>&) {
    began.set_value();
    release.get_future().wait();
    OperationEnd end;
    end.how = OperationEnd::How::kFailed;
    end.error = "no";
    return end;
  });
  operations_->Begin(Remove("b"), [](const std::atomic<bool>&) { return OperationEnd{}; });
  began.get_future().wait();
  auto state = operations_->Take();
  ASSERT_EQ(state.under_way.size(), 2u);
  EXPECT_TRUE(state.under_way[0].begun);
  EXPECT_FALSE(state.under_way[1].begun) << "one of a kind at a time here";
  EXPECT_TRUE(state.ended.empty());
  release.set_value();
  ASSERT_TRUE(Poked(2));
  state = operations_->Take();
  EXPECT_TRUE(state.under_way.empty());
  ASSERT_EQ(state.ended.size(), 2u);
  EXPECT_EQ(state.ended[0].action, Remove("a"));
  EXPECT_EQ(state.ended[0].error, "no");
  EXPECT_TRUE(operations_->Take().ended.empty()) << "each end is given once";
}

TEST_F(PodOperationsTest, WhatHasNotBegunIsCancelledAndWhatRunsHearsOfIt) {
  std::promise<void> began;
  operations_->Begin(Remove("a"), [&](const std::atomic<bool>& cancelled) {
    began.set_value();
    while (!cancelled) std::this_thread::yield();
    OperationEnd end;
    end.how = OperationEnd::How::kCancelled;
    return end;
  });
  std::atomic<bool> ran = false;
  operations_->Begin(Remove("b"), [&](const std::atomic<bool>&) {
    ran = true;
    return OperationEnd{};
  });
  began.get_future().wait();
  operations_->Cancel(Remove("b"));
  operations_->Cancel(Remove("a"));
  operations_->Cancel(Remove("nobody"));
  ASSERT_TRUE(Poked(2));
  for (const OperationEnd& end : operations_->Take().ended) {
    EXPECT_EQ(end.how, OperationEnd::How::kCancelled);
  }
  EXPECT_FALSE(ran);
}

TEST_F(PodOperationsTest, OneThatIsOverdueHoldsUpItsKindNoMore) {
  std::promise<void> began, release;
  operations_->Begin(Remove("a"), [&](const std::atomic<bool>&) {
    began.set_value();
    release.get_future().wait();
    return OperationEnd{};
  });
  operations_->Begin(Remove("b"), [](const std::atomic<bool>&) { return OperationEnd{}; });
  began.get_future().wait();
  EXPECT_TRUE(operations_->GiveBack(Remove("a")));
  ASSERT_TRUE(Poked(1));
  const auto state = operations_->Take();
  ASSERT_EQ(state.under_way.size(), 1u);
  EXPECT_TRUE(state.under_way[0].overdue);
  EXPECT_EQ(state.ended.at(0).action, Remove("b"));
  release.set_value();
  EXPECT_TRUE(Poked(2));
}

// Everything at once, for the thread checker.
TEST_F(PodOperationsTest, ManyBeginEndAndAreCancelled) {
  size_t ended = 0;
  for (uint32_t i = 0; i < 300; ++i) {
    Action action = Remove("a");
    action.attempt = i;
    operations_->Begin(action, [](const std::atomic<bool>& cancelled) {
      OperationEnd end;
      if (cancelled) end.how = OperationEnd::How::kCancelled;
      return end;
    });
    if (i % 3 == 0) operations_->Cancel(action);
    if (i % 7 == 0) (void)operations_->GiveBack(action);
    ended += operations_->Take().ended.size();
  }
  ASSERT_TRUE(Poked(300));
  ended += operations_->Take().ended.size();
  EXPECT_EQ(ended, 300u);
}

// Where somebody else mounts, he may not answer: not only when he is asked, but also when a container starts in what he
// has mounted.
TEST(PodLaneTest, WhatMayWaitForAServerTakesRoomFromNoOther) {
  using Kind = Action::Kind;
  for (const Kind kind :
       {Kind::kEnsureVolumes, Kind::kStart, Kind::kReleaseVolumes, Kind::kCleanUp}) {
    EXPECT_EQ(LaneOf(kind, true), PodLane::kMounts);
    EXPECT_NE(LaneOf(kind, false), PodLane::kMounts);
  }
  EXPECT_EQ(LaneOf(Kind::kKill, true), PodLane::kStop);
}

}  // namespace
}  // namespace holdfast::agent
