// SPDX-License-Identifier: Apache-2.0
#include "agent/stats/node_rooms.h"

#include <gtest/gtest.h>

#include "agent/stats/machine_stats.h"

namespace holdfast::agent {
namespace {

TEST(NodeRoomsTest, ThisMachineIsRead) {
  model::Instance instance;
  instance.root_dir = "/";
  NodeRooms rooms = ReadRooms(instance, runtime::CgroupNaming::kCgroupfs,
                              runtime::DetectCgroupLayout(instance.cgroup_root));
  for (const PressureSignal signal :
       {PressureSignal::kMemory, PressureSignal::kNodeBytes, PressureSignal::kPids}) {
    EXPECT_GT(rooms[signal].total, rooms[signal].left) << NameOf(signal);
    EXPECT_GT(rooms[signal].left, 0u) << NameOf(signal);
  }
}

TEST(NodeRoomsTest, WhatCannotBeReadIsNotThere) {
  model::Instance instance;
  instance.root_dir = "/does/not/exist";
  const NodeRooms rooms = ReadRooms(instance, runtime::CgroupNaming::kCgroupfs,
                                    runtime::DetectCgroupLayout(instance.cgroup_root));
  EXPECT_FALSE(rooms.contains(PressureSignal::kNodeBytes));
  EXPECT_FALSE(rooms.contains(PressureSignal::kImageInodes));
  EXPECT_TRUE(rooms.contains(PressureSignal::kMemory));
}

// The kernel's own memory is no reason to take pods away.
TEST(NodeRoomsTest, MemoryIsCountedAsCgroupsCountIt) {
  const MachineMemory memory = ParseMachineMemory(
      "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 10 kB\nCached: 200 kB\nSwapCached: 5 kB\n"
      "Inactive(file): 50 kB\nAnonPages: 300 kB\nSReclaimable: 400 kB\n");
  EXPECT_EQ(memory.total, 1000u << 10);
  EXPECT_EQ(memory.usage, 515u << 10);
  EXPECT_EQ(memory.working_set, 465u << 10);
  EXPECT_EQ(ParseMachineMemory("").working_set, 0u);
}

}  // namespace
}  // namespace holdfast::agent
