// SPDX-License-Identifier: Apache-2.0
// Who goes first, and what is said of it.
#include "agent/evict/candidates.h"

#include <gtest/gtest.h>

#include "holdfast/base/strings.h"
#include "tests/unit/agent/evict/pressure_pods.h"

namespace holdfast::agent {
namespace {

namespace core = ::k8s::io::api::core::v1;
using Signal = PressureSignal;

class CandidatesTest : public ::testing::Test {
 protected:
  void Add(core::Pod pod, uint64_t working_set) {
    sample_.pods.push_back(StatsOf(pod.metadata().name(), working_set));
    pods_.push_back(std::make_shared<const core::Pod>(std::move(pod)));
  }
  std::string Order(Signal signal) {
    std::string names;
    for (const Candidate& one : RankForEviction(pods_, sample_, signal)) {
      names += StrCat(names.empty() ? "" : " ", one.pod->metadata().name());
    }
    return names;
  }

  std::vector<PodPtr> pods_;
  NodeSample sample_;
};

TEST_F(CandidatesTest, WhoHasMoreThanItAskedForThenPriorityThenHowMuch) {
  Add(RunningPod("within", "100Mi"), 100 * kMi);
  Add(RunningPod("above-important", "1Mi", 1000), 500 * kMi);
  Add(RunningPod("above-little", "50Mi"), 60 * kMi);
  Add(RunningPod("above-much", "50Mi"), 90 * kMi);
  Add(RunningPod("nothing-asked"), 50 * kMi);
  Add(RunningPod("unimportant-within", "10Mi", -5), 1 * kMi);
  pods_.push_back(std::make_shared<const core::Pod>(RunningPod("unknown", "1Gi", 2000)));
  EXPECT_EQ(Order(Signal::kMemory),
            "unknown nothing-asked above-much above-little above-important unimportant-within "
            "within");
}

TEST_F(CandidatesTest, OfProcessesPriorityThenHowMany) {
  Add(RunningPod("few"), 0);
  Add(RunningPod("many"), 0);
  Add(RunningPod("most-important", "", 7), 0);
  sample_.pods[0].usage->used.processes = 3;
  sample_.pods[1].usage->used.processes = 300;
  sample_.pods[2].usage->used.processes = 3000;
  EXPECT_EQ(Order(Signal::kPids), "many few most-important");
}

TEST_F(CandidatesTest, OfTheDiskLayersLogsAndVolumesCount) {
  Add(RunningPod("layer"), 0);
  Add(RunningPod("logs"), 0);
  Add(RunningPod("volume"), 0);
  core::Pod asked = RunningPod("asked");
  (*asked.mutable_spec()
        ->mutable_containers(0)
        ->mutable_resources()
        ->mutable_requests())["ephemeral-storage"]
      .set_string("1Gi");
  Add(asked, 0);
  sample_.pods[0].containers[0].root = FsUsage{.used = 20, .inodes_used = 1};
  sample_.pods[1].containers[0].logs = FsUsage{.used = 30, .inodes_used = 2};
  sample_.pods[2].volumes.push_back({"data", FsUsage{.used = 10, .inodes_used = 900}});
  sample_.pods[3].containers[0].root = FsUsage{.used = 500, .inodes_used = 5};
  EXPECT_EQ(Order(Signal::kNodeBytes), "logs layer volume asked");
  EXPECT_EQ(Order(Signal::kImageBytes), "logs layer volume asked");
  EXPECT_EQ(Order(Signal::kNodeInodes), "volume asked logs layer");
}

TEST_F(CandidatesTest, WhoHasEndedHasNothingToGive) {
  core::Pod done = RunningPod("done");
  done.mutable_status()->set_phase("Succeeded");
  Add(done, kMi);
  EXPECT_EQ(Order(Signal::kMemory), "");
}

Shortage Low(Signal signal, uint64_t least, uint64_t left) {
  return {{signal, {0, least}, {}}, {left, 1000 * kMi}};
}

TEST_F(CandidatesTest, TheWordsAreAKubelets) {
  Add(RunningPod("hungry", "50Mi"), 90 * kMi);
  const Candidate hungry = RankForEviction(pods_, sample_, Signal::kMemory).front();
  const Eviction eviction = EvictionFor(hungry, Low(Signal::kMemory, 100 * kMi, 12345));
  EXPECT_EQ(eviction.why,
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 12345. "
            "Container app was using 90Mi, request is 50Mi, has larger consumption of memory. ");
  EXPECT_TRUE(eviction.disruption);
  EXPECT_EQ(eviction.signal, "memory.available");
  using Annotations = std::map<std::string, std::string>;
  EXPECT_EQ(eviction.annotations, (Annotations{{"offending_containers", "app"},
                                               {"offending_containers_usage", "90Mi"},
                                               {"starved_resource", "memory"}}));
}

TEST_F(CandidatesTest, APodThatAskedAsAWholeIsNamedToo) {
  core::Pod pod = RunningPod("whole");
  (*pod.mutable_spec()->mutable_resources()->mutable_requests())["memory"].set_string("32Mi");
  Add(pod, 64 * kMi);
  const Candidate whole = RankForEviction(pods_, sample_, Signal::kMemory).front();
  const Eviction eviction = EvictionFor(whole, Low(Signal::kMemory, kMi, 0));
  EXPECT_EQ(eviction.why,
            "The node was low on resource: memory. Threshold quantity: 1Mi, available: 0. "
            "Pod whole was using 64Mi, request is 32Mi, has larger consumption of memory. "
            "Container app was using 64Mi, request is 0, has larger consumption of memory. ");
  EXPECT_EQ(eviction.annotations.at("offending_pod"), "whole");
  EXPECT_EQ(eviction.annotations.at("offending_pod_usage"), "64Mi");
}

TEST_F(CandidatesTest, WhoKeepsToItsRequestIsNotBlamed) {
  Add(RunningPod("modest", "100Mi"), 50 * kMi);
  const Candidate modest = RankForEviction(pods_, sample_, Signal::kNodeInodes).front();
  EXPECT_EQ(EvictionFor(modest, Low(Signal::kNodeInodes, 5000, 12)).why,
            "The node was low on resource: inodes. Threshold quantity: 5k, available: 12. ");
  EXPECT_EQ(EvictionFor(modest, Low(Signal::kImageBytes, 15 * kMi, kMi)).why,
            "The node was low on resource: ephemeral-storage. Threshold quantity: 15Mi, "
            "available: 1Mi. ");
  EXPECT_EQ(EvictionFor(modest, Low(Signal::kPids, 10, 3)).annotations.at("starved_resource"),
            "pids");
  EXPECT_EQ(
      EvictionFor(modest, Low(Signal::kMemory, kMi, 0)).annotations.at("offending_containers"), "");
}

}  // namespace
}  // namespace holdfast::agent
