// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>

namespace holdfast::agent {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kGiB = 1 << 30;
constexpr int64_t kUnlimited = runtime::CgroupLimits::kUnlimited;

const NodeAmounts kCapacity{4000, 8 * kGiB, 32768};

TEST(WithinTest, IsTheSmallerOfMachineAndCgroupsAbove) {
  EXPECT_EQ(Within(kCapacity, {}), kCapacity);
  EXPECT_EQ(Within(kCapacity, {kGiB, 500}), (NodeAmounts{4000, kGiB, 500}));
  EXPECT_EQ(Within(kCapacity, {64 * kGiB, 1 << 22}), kCapacity);
  EXPECT_EQ(Within(kCapacity, {kUnlimited, 500}), (NodeAmounts{4000, 8 * kGiB, 500}));
}

TEST(DefaultReserveTest, GrowsWithTheNodeAndHasBounds) {
  struct Row {
    int64_t memory;
    int64_t pids;
    int64_t reserved_memory;
    int64_t reserved_pids;
  };
  for (const Row& row : {
           Row{256 * kMiB, 1000, 64 * kMiB, 100},      // a quarter of a small node
           Row{512 * kMiB, 4096, 100 * kMiB, 409},     // at least
           Row{2000 * kMiB, 32768, 100 * kMiB, 3276},  // a twentieth is just as much
           Row{8 * kGiB, 32768, 8 * kGiB / 20, 3276},  //
           Row{20 * kGiB, 1 << 22, kGiB, 419430},      // at most
           Row{512 * kGiB, 1 << 22, kGiB, 419430},     //
       }) {
    const NodeAmounts reserve = DefaultReserve({4000, row.memory, row.pids});
    EXPECT_EQ(reserve, (NodeAmounts{0, row.reserved_memory, row.reserved_pids})) << row.memory;
  }
}

TEST(NodeAllocatableTest, WithoutAReserveTheNodeKeepsTheDefault) {
  EXPECT_EQ(*NodeAllocatable(NodeConfig(), kCapacity),
            (NodeAmounts{4000, 8 * kGiB - 8 * kGiB / 20, 32768 - 3276}));
}

TEST(NodeAllocatableTest, IsWhatIsNotReserved) {
  NodeConfig config;
  config.system_reserved = {500, kGiB, 1000};
  config.kube_reserved = {250, kGiB / 2, 0};
  const auto left = NodeAllocatable(config, kCapacity);
  ASSERT_TRUE(left);
  EXPECT_EQ(*left, (NodeAmounts{3250, 8 * kGiB - 3 * kGiB / 2, 31768}));
}

TEST(NodeAllocatableTest, AReserveOfOneResourceLeavesTheDefaultOfTheOther) {
  NodeConfig config;
  config.kube_reserved.memory_bytes = kGiB;
  EXPECT_EQ(*NodeAllocatable(config, kCapacity), (NodeAmounts{4000, 7 * kGiB, 32768 - 3276}));
}

TEST(NodeAllocatableTest, MoreThanThereIsNamesTheResource) {
  NodeConfig config;
  config.kube_reserved.memory_bytes = 9 * kGiB;
  const auto left = NodeAllocatable(config, kCapacity);
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().message(),
            "systemReserved and kubeReserved: more bytes of memory (9663676416) than the node has "
            "(8589934592)");
}

// Each object costs who made it at least this much of the pods' memory.
TEST(SharedCountsTest, PodsRunOutOfMemoryBeforeTheNodeRunsOut) {
  constexpr int64_t kStructFile = 184;
  constexpr int64_t kMark = 80;
  constexpr int64_t kEpollItem = 128;
  for (const int64_t memory : {256 * kMiB, kGiB, 24 * kGiB, 4096 * kGiB}) {
    const NodeAmounts capacity{1000, memory, 32768};
    const int64_t pods = NodeAllocatable(NodeConfig(), capacity)->memory_bytes;
    std::map<std::string, int64_t> counts;
    for (const SharedCount& count : SharedCounts(pods, memory)) counts[count.sysctl] = count.least;
    EXPECT_GT(counts.at("fs/file-max"), pods / kStructFile + memory / 10240) << memory;
    EXPECT_LT(counts.at("fs/file-max"), memory / 100) << memory;
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    EXPECT_GE(counts.at("fs/inotify/max_user_instances"), std::min(pods / kStructFile, kMost));
    EXPECT_LE(counts.at("fs/inotify/max_user_instances"), kMost);
    EXPECT_GE(counts.at("fs/inotify/max_user_watches"), std::min(pods / kMark, kMost));
    EXPECT_LE(counts.at("fs/inotify/max_user_watches"), kMost);
    EXPECT_GT(counts.at("fs/epoll/max_user_watches"), pods / kEpollItem);
  }
}

}  // namespace
}  // namespace holdfast::agent
