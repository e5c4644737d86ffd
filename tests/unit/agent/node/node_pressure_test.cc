// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_pressure.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

NodeRooms Ample() {
  constexpr Room kAmple{90, 100};
  return {{1ull << 30, 4ull << 30}, kAmple, kAmple, kAmple, kAmple, kAmple};
}

NodePressure Of(const NodeRooms& rooms) {
  const AgentConfig config;
  return PressureOf(rooms, config.node.pressure, config.image_reserve);
}

TEST(NodePressureTest, EachSignalHasKubeletsThreshold) {
  EXPECT_FALSE(Of(Ample()).memory || Of(Ample()).disk || Of(Ample()).pids);
  NodeRooms rooms = Ample();
  rooms.memory.left = (100ull << 20) - 1;
  EXPECT_TRUE(Of(rooms).memory);
  EXPECT_FALSE(Of(rooms).disk);
  const auto disk = [](Room NodeRooms::* which, uint64_t left) {
    NodeRooms short_of = Ample();
    (short_of.*which).left = left;
    return Of(short_of).disk;
  };
  EXPECT_FALSE(disk(&NodeRooms::node_bytes, 10));
  EXPECT_TRUE(disk(&NodeRooms::node_bytes, 9));
  EXPECT_FALSE(disk(&NodeRooms::node_inodes, 5));
  EXPECT_TRUE(disk(&NodeRooms::node_inodes, 4));
  EXPECT_FALSE(disk(&NodeRooms::image_bytes, 15));
  EXPECT_TRUE(disk(&NodeRooms::image_bytes, 14));
  EXPECT_TRUE(disk(&NodeRooms::image_inodes, 4));
  rooms.pids.left = 0;
  EXPECT_FALSE(Of(rooms).pids) << "not watched by default";
}

TEST(NodePressureTest, WhatIsNotKnownIsNotShort) {
  EXPECT_FALSE(Of({}).memory || Of({}).disk || Of({}).pids);
}

TEST(NodePressureTest, ThisMachineIsRead) {
  AgentConfig config;
  config.instance.root_dir = "/";
  const NodeRooms rooms = ReadRooms(config);
  EXPECT_GT(rooms.memory.total, rooms.memory.left);
  EXPECT_GT(rooms.memory.left, 0u);
  EXPECT_GT(rooms.node_bytes.total, rooms.node_bytes.left);
  EXPECT_GT(rooms.pids.total, rooms.pids.left);
}

TEST(NodePressureTest, ItIsShownForFiveMinutesAfterItsEnd) {
  SteadyPressure steady;
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
