// SPDX-License-Identifier: Apache-2.0
#include "agent/node/memory_policy.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

constexpr char kNoSwap[] = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
constexpr char kOneSwap[] =
    "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    "/swapfile                               file\t\t1048572\t\t0\t\t-2\n";

class SwapEvents : public EventSink {
 public:
  void AddEvent(const EventSubject& subject, const EventNote& note) override {
    told.push_back(subject.name + " " + note.reason);
  }
  std::vector<std::string> told;
};

TEST(MemoryPolicyTest, NothingOfItIsDoneWithoutCgroupV2) {
  NodeConfig node;
  EXPECT_TRUE(WithoutEffect(node, false).empty());
  node.swap_behavior = "LimitedSwap";
  node.memory_qos = true;
  node.memory_reservation = "TieredReservation";
  node.memory_throttling_factor = 0.5;
  const MemoryPolicy v2 = MemoryPolicyOf(node, true);
  EXPECT_TRUE(v2.limited_swap && v2.qos && v2.reserves);
  EXPECT_EQ(v2.throttling_factor, 0.5);
  EXPECT_TRUE(WithoutEffect(node, true).empty());
  const MemoryPolicy v1 = MemoryPolicyOf(node, false);
  EXPECT_FALSE(v1.limited_swap || v1.qos || v1.reserves);
  EXPECT_EQ(WithoutEffect(node, false).size(), 2u);
  node.memory_reservation = "None";
  EXPECT_FALSE(MemoryPolicyOf(node, true).reserves);
}

TEST(CheckSwapTest, ANodeWithSwapIsRefusedOrTold) {
  SwapEvents events;
  NodeConfig node;
  EXPECT_TRUE(CheckSwap(node, "n1", kOneSwap, true, events));
  EXPECT_TRUE(events.told.empty());
  EXPECT_TRUE(CheckSwap(node, "n1", kOneSwap, false, events));
  EXPECT_EQ(events.told, std::vector<std::string>{"n1 PossibleMemoryBackedVolumesOnDisk"});
  node.fail_swap_on = true;
  EXPECT_FALSE(CheckSwap(node, "n1", kOneSwap, true, events));
  EXPECT_TRUE(CheckSwap(node, "n1", kNoSwap, false, events));
  EXPECT_TRUE(CheckSwap(node, "n1", "", false, events));
  EXPECT_EQ(events.told.size(), 1u);
}

}  // namespace
}  // namespace holdfast::agent
