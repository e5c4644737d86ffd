// SPDX-License-Identifier: Apache-2.0
// top: rates out of two readings, and its tables.
#include "agent/cli/usage.h"

#include <gtest/gtest.h>

namespace holdfast::agent::cli {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

struct Reader {
  v1::GetStatsResponse stats;
  int64_t now = 0;

  void Add(const std::string& pod, const std::string& container, const std::string& id,
           uint64_t cpu_nanos, uint64_t mebibytes, int64_t started = 0,
           const std::string& name_space = "default", uint64_t swapped_mebibytes = 0) {
    auto* to = stats.pods_size() > 0 && stats.pods(stats.pods_size() - 1).name() == pod
                   ? stats.mutable_pods(stats.pods_size() - 1)
                   : stats.add_pods();
    to->set_namespace_(name_space);
    to->set_name(pod);
    auto* added = to->add_containers();
    added->set_name(container);
    added->set_id(id);
    added->set_started_unix_nanos(started);
    added->mutable_usage()->set_time_unix_nanos(now);
    added->mutable_usage()->set_cpu_nanos(cpu_nanos);
    added->mutable_usage()->set_memory_working_set_bytes(mebibytes << 20);
    added->mutable_usage()->set_swap_bytes(swapped_mebibytes << 20);
  }
};

std::vector<PodUsage> TwoPods() {
  Reader before{.stats = {}, .now = 10 * kSecond}, after{.stats = {}, .now = 12 * kSecond};
  before.Add("web", "log", "l1", 5 * kSecond, 1);
  before.Add("web", "app", "a1", 1000, 1);
  after.Add("web", "log", "l1", 5 * kSecond + 2, 3);
  after.Add("web", "app", "a1", 1000 + kSecond / 2, 60);
  after.Add("db", "db", "d2", kSecond / 10, 300, 11 * kSecond, "prod", 7);  // since then
  after.stats.add_pods()->set_name("waits");                                // nothing of it runs
  return UsageOfPods(before.stats, after.stats);
}

TEST(UsageTest, IsWhatWasUsedBetween) {
  const auto pods = TwoPods();
  ASSERT_EQ(pods.size(), 2u);
  EXPECT_EQ(pods[0].containers[1].usage, (Usage{250'000'000, 60u << 20}));
  EXPECT_EQ(pods[0].Sum().memory_bytes, 63u << 20);
  EXPECT_EQ(pods[1].Sum().cpu_nanos, 100'000'000u) << "a tenth of a second in one since its start";
}

TEST(UsageTest, CountersThatGoBackAndClocksThatStandGiveNothing) {
  Reader before{.stats = {}, .now = 10 * kSecond}, after{.stats = {}, .now = 10 * kSecond};
  before.Add("web", "app", "a1", 1000, 1);
  after.Add("web", "app", "a1", 2000, 1);
  EXPECT_EQ(UsageOfPods(before.stats, after.stats).at(0).Sum().cpu_nanos, 0u);
  after.stats.mutable_pods(0)->mutable_containers(0)->mutable_usage()->set_time_unix_nanos(11 *
                                                                                           kSecond);
  after.stats.mutable_pods(0)->mutable_containers(0)->mutable_usage()->set_cpu_nanos(1);
  EXPECT_EQ(UsageOfPods(before.stats, after.stats).at(0).Sum().cpu_nanos, 0u);
}

// As kubectl top prints them, but for spaces at the ends of lines.
TEST(UsageTest, TablesAreKubectls) {
  EXPECT_EQ(UsageTable(TwoPods(), {}),
            "NAME   CPU(cores)   MEMORY(bytes)\n"
            "web    251m         63Mi\n"  // what is finer is rounded up
            "db     100m         300Mi\n");
  EXPECT_EQ(UsageTable(TwoPods(), {.order = UsageOrder::kMemory, .with_namespace = true}),
            "NAMESPACE   NAME   CPU(cores)   MEMORY(bytes)\n"
            "prod        db     100m         300Mi\n"
            "default     web    251m         63Mi\n");
  EXPECT_EQ(UsageTable(TwoPods(), {.order = UsageOrder::kCpu, .containers = true}),
            "POD   NAME   CPU(cores)   MEMORY(bytes)\n"
            "web   app    250m         60Mi\n"
            "web   log    1m           3Mi\n"
            "db    db     100m         300Mi\n");
  EXPECT_EQ(UsageTable(TwoPods(), {.sum = true, .with_header = false}),
            "web   251m       63Mi\n"
            "db    100m       300Mi\n"
            "      ________   ________\n"
            "      351m       363Mi\n");
  EXPECT_EQ(UsageTable({}, {}), "");
}

// kubectl's own sums stand a column too far right, with two lines above three of them.
TEST(UsageTest, SwapHasAColumnOfItsOwn) {
  EXPECT_EQ(UsageTable(TwoPods(), {.sum = true, .swap = true}),
            "NAME   CPU(cores)   MEMORY(bytes)   SWAP(bytes)\n"
            "web    251m         63Mi            0Mi\n"
            "db     100m         300Mi           7Mi\n"
            "       ________     ________        ________\n"
            "       351m         363Mi           7Mi\n");
}

TEST(UsageTest, OfTheNodeInPartsOfWhatPodsMayHave) {
  v1::GetStatsResponse before, after;
  after.mutable_node()->set_time_unix_nanos(2 * kSecond);
  after.mutable_node()->set_cpu_nanos(kSecond);
  after.mutable_node()->set_memory_working_set_bytes(512u << 20);
  after.mutable_node()->set_swap_bytes(256u << 20);
  auto limits = NodeLimits{*kube::Amount::Parse("1500m"), *kube::Amount::Parse("1Gi"), {}};
  EXPECT_EQ(NodeUsageTable("n1", UsageOfNode(before, after), limits, {}),
            "NAME   CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)\n"
            "n1     500m         33%      512Mi           50%\n");
  EXPECT_EQ(NodeUsageTable("n1", {}, {}, {.with_header = false}), "n1    0m    0%    0Mi   0%\n");
  EXPECT_EQ(NodeUsageTable("n1", {}, {}, {.swap = true}),
            "NAME   CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)   SWAP(bytes)   SWAP(%)\n"
            "n1     0m           0%       0Mi             0%          <unknown>     <unknown>\n");
  limits.swap_bytes = 1u << 30;
  EXPECT_EQ(NodeUsageTable("n1", UsageOfNode(before, after), limits,
                           {.swap = true, .with_header = false}),
            "n1    500m   33%   512Mi   50%   256Mi   25%\n");
}

}  // namespace
}  // namespace holdfast::agent::cli
