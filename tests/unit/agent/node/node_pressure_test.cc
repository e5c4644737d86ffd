// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_pressure.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

NodeRooms Ample() {
  NodeRooms rooms;
  for (size_t i = 0; i < kPressureSignals.size(); ++i) {
    rooms[static_cast<PressureSignal>(i)] = {90, 100};
  }
  rooms[PressureSignal::kMemory] = rooms[PressureSignal::kPodsMemory] = {1ull << 30, 4ull << 30};
  return rooms;
}

NodePressure Of(const NodeRooms& rooms) { return PressureOf(rooms, ThresholdsOf({})); }

TEST(NodePressureTest, EachSignalHasKubeletsThreshold) {
  EXPECT_FALSE(Of(Ample()).memory || Of(Ample()).disk || Of(Ample()).pids);
  NodeRooms rooms = Ample();
  rooms[PressureSignal::kMemory].left = (100ull << 20) - 1;
  EXPECT_TRUE(Of(rooms).memory);
  EXPECT_FALSE(Of(rooms).disk);
  rooms = Ample();
  rooms[PressureSignal::kPodsMemory].left = (100ull << 20) - 1;
  EXPECT_TRUE(Of(rooms).memory) << "they have used up what they may have together";
  const auto disk = [](PressureSignal which, uint64_t left) {
    NodeRooms short_of = Ample();
    short_of[which].left = left;
    return Of(short_of).disk;
  };
  EXPECT_FALSE(disk(PressureSignal::kNodeBytes, 10));
  EXPECT_TRUE(disk(PressureSignal::kNodeBytes, 9));
  EXPECT_FALSE(disk(PressureSignal::kNodeInodes, 5));
  EXPECT_TRUE(disk(PressureSignal::kNodeInodes, 4));
  EXPECT_FALSE(disk(PressureSignal::kImageBytes, 15));
  EXPECT_TRUE(disk(PressureSignal::kImageBytes, 14));
  EXPECT_TRUE(disk(PressureSignal::kImageInodes, 4));
  rooms[PressureSignal::kPids].left = 0;
  EXPECT_FALSE(Of(rooms).pids) << "not watched by default";
}

TEST(NodePressureTest, ASoftThresholdIsShownAtOnce) {
  EvictionConfig config;
  config.soft = {{PressureSignal::kPids, {95, 0}}};
  config.soft_grace = {{PressureSignal::kPids, std::chrono::hours(1)}};
  EXPECT_TRUE(PressureOf(Ample(), ThresholdsOf(config)).pids);
}

TEST(NodePressureTest, WhatIsNotKnownIsNotShort) {
  EXPECT_FALSE(Of({}).memory || Of({}).disk || Of({}).pids);
}

TEST(NodePressureTest, ItIsShownForFiveMinutesAfterItsEnd) {
  SteadyPressure steady(std::chrono::minutes(5));
  BootTime at{std::chrono::hours(1)};
  EXPECT_FALSE(steady.Show({}, at).disk);
  NodePressure now;
  now.disk = true;
  EXPECT_TRUE(steady.Show(now, at).disk);
  at = at + std::chrono::seconds(299);
  EXPECT_TRUE(steady.Show({}, at).disk);
  EXPECT_FALSE(steady.Show({}, at).memory);
  at = at + std::chrono::seconds(1);
  EXPECT_FALSE(steady.Show({}, at).disk);
}

}  // namespace
}  // namespace holdfast::agent
