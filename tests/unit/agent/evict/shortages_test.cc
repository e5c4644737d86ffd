// SPDX-License-Identifier: Apache-2.0
// What the node is short of, for how long, and when that is over.
#include "agent/evict/shortages.h"

#include <gtest/gtest.h>

#include <string>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;
using Signal = PressureSignal;

class ShortagesTest : public ::testing::Test {
 protected:
  // "memory.available hard", one per shortage.
  std::string Of(Shortages& shortages, seconds later = seconds(0)) {
    now_ = now_ + later;
    std::string text;
    for (const Shortage& one : shortages.Of(rooms_, now_)) {
      EXPECT_EQ(one.room.left, rooms_.at(one.threshold.signal).left);
      text += StrCat(text.empty() ? "" : ", ", NameOf(one.threshold.signal),
                     one.threshold.grace ? " soft" : " hard");
    }
    return text;
  }

  NodeRooms rooms_ = {{Signal::kMemory, {500, 1000}},
                      {Signal::kNodeBytes, {500, 1000}},
                      {Signal::kImageBytes, {500, 1000}}};
  EvictionConfig config_{
      .hard = {{Signal::kMemory, {0, 100}},
               {Signal::kNodeBytes, {10, 0}},
               {Signal::kPids, {10, 0}}},
      .soft = {{Signal::kMemory, {0, 200}}, {Signal::kNodeBytes, {20, 0}}},
      .soft_grace = {{Signal::kMemory, seconds(60)}, {Signal::kNodeBytes, seconds(30)}},
      .minimum_reclaim = {{Signal::kNodeBytes, {0, 50}}}};
  BootTime now_{std::chrono::hours(1)};
};

TEST_F(ShortagesTest, HardOnesCountAtOnceAndBelowTheirAmountOnly) {
  Shortages shortages(config_);
  EXPECT_EQ(Of(shortages), "");
  rooms_[Signal::kNodeBytes].left = 99;
  EXPECT_EQ(Of(shortages), "nodefs.available hard");
  rooms_[Signal::kMemory].left = 100;
  EXPECT_EQ(Of(shortages), "nodefs.available hard") << "just enough";
  rooms_[Signal::kMemory].left = 99;
  EXPECT_EQ(Of(shortages), "memory.available hard, nodefs.available hard") << "memory first";
  rooms_.erase(Signal::kMemory);
  EXPECT_EQ(Of(shortages), "nodefs.available hard") << "what is not known is not short";
}

TEST_F(ShortagesTest, SoftOnesCountAfterTheirGraceWithoutABreak) {
  Shortages shortages(config_);
  rooms_[Signal::kMemory].left = 150;
  EXPECT_EQ(Of(shortages), "");
  EXPECT_EQ(Of(shortages, seconds(59)), "");
  EXPECT_EQ(Of(shortages, seconds(1)), "memory.available soft");
  rooms_[Signal::kMemory].left = 200;
  EXPECT_EQ(Of(shortages), "");
  rooms_[Signal::kMemory].left = 150;
  EXPECT_EQ(Of(shortages, seconds(10)), "") << "it begins anew";
  EXPECT_EQ(Of(shortages, seconds(60)), "memory.available soft");
}

TEST_F(ShortagesTest, ItIsOverOnceSoMuchIsReclaimed) {
  Shortages shortages(config_);
  rooms_[Signal::kNodeBytes].left = 99;
  EXPECT_EQ(Of(shortages), "nodefs.available hard");
  rooms_[Signal::kNodeBytes].left = 149;
  EXPECT_EQ(Of(shortages), "nodefs.available hard");
  rooms_[Signal::kNodeBytes].left = 150;
  EXPECT_EQ(Of(shortages), "");
  rooms_[Signal::kNodeBytes].left = 110;
  EXPECT_EQ(Of(shortages), "") << "reclaim is asked for of what was short only";
}

TEST_F(ShortagesTest, AShareOfNothingIsNeverKeptWatchOf) {
  config_.hard = {{Signal::kNodeBytes, {0, 0}}};
  config_.soft.clear();
  Shortages shortages(config_);
  rooms_[Signal::kNodeBytes].left = 0;
  EXPECT_EQ(Of(shortages), "");
}

}  // namespace
}  // namespace holdfast::agent
