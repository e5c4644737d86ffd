// SPDX-License-Identifier: Apache-2.0
// A pod that the node wants to end: how it is stopped, what is shown and told, and that it never comes back.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;

constexpr char kWhy[] = "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". ";

TEST(EvictionTest, EndsWithinASecondAsFailed) {
  PodWorld world(kOne);
  world.memory.origin = PodOrigin::kApi;
  world.Run();
  world.events.clear();
  world.eviction = Eviction{.why = kWhy, .signal = "emptydirfs.limit"};
  EXPECT_EQ(world.Run(), Actions{"signal app 15"});
  EXPECT_EQ(world.events, (Actions{StrCat("Evicted: ", kWhy), "Killing: Stopping container app"}));
  EXPECT_EQ(world.last.status.phase(), "Running") << "as long as something runs";
  world.Pass(seconds(2));
  EXPECT_EQ(world.Look(), Actions{"kill app"})
      << "a second, and never less than two after the signal";
  EXPECT_EQ(world.Run(),
            (Actions{"kill app", "remove app#0", "remove sandbox", "release volumes"}));
  EXPECT_EQ(world.last.status.phase(), "Failed");
  EXPECT_EQ(world.last.status.reason(), "Evicted");
  EXPECT_EQ(world.last.status.message(), kWhy);
  EXPECT_TRUE(world.last.released);
}

TEST(EvictionTest, WhoGoesForWantOfSomethingSaysSoInACondition) {
  PodWorld world(kOne);
  world.memory.origin = PodOrigin::kApi;
  world.Run();
  world.events.clear();
  constexpr char kLow[] = "The node was low on resource: memory. ";
  world.eviction = Eviction{.why = kLow,
                            .signal = "memory.available",
                            .grace = seconds(20),
                            .disruption = true,
                            .annotations = {{"starved_resource", "memory"}}};
  EXPECT_EQ(world.Run(), Actions{"signal app 15"});
  world.Pass(seconds(19));
  EXPECT_EQ(world.Look(), Actions{}) << "it has its own time";
  world.Exit("app", 0);
  world.Run();
  world.RestartAgent();
  world.Run();
  EXPECT_EQ(world.last.status.phase(), "Failed");
  const auto& conditions = world.last.status.conditions();
  const auto target =
      std::ranges::find(conditions, "DisruptionTarget", &corev1::PodCondition::type);
  ASSERT_NE(target, conditions.end());
  EXPECT_EQ(target->status(), "True");
  EXPECT_EQ(target->reason(), "TerminationByKubelet");
  EXPECT_EQ(target->message(), kLow);
  EXPECT_NE(target->lasttransitiontime().seconds(), 0);
}

TEST(EvictionTest, WhoTookTooMuchHasNoSuchCondition) {
  PodWorld world(kOne);
  world.memory.origin = PodOrigin::kApi;
  world.Run();
  world.eviction = Eviction{.why = kWhy, .signal = "emptydirfs.limit"};
  world.Run();
  world.Exit("app", 0);
  world.Run();
  for (const auto& condition : world.last.status.conditions()) {
    EXPECT_NE(condition.type(), "DisruptionTarget");
  }
}

TEST(EvictionTest, APodThatEndsAlreadyGoesOnAsItDoes) {
  PodWorld world(kOne);
  world.Run();
  world.deletion_grace = seconds(30);
  world.Run();
  world.events.clear();
  world.eviction = Eviction{.why = kWhy, .signal = "emptydirfs.limit"};
  EXPECT_TRUE(world.Run().empty());
  EXPECT_EQ(world.events, Actions{});
  world.Exit("app", 0);
  world.Run();
  EXPECT_EQ(world.last.status.phase(), "Succeeded");
}

TEST(EvictionTest, ItIsNotTakenBackAndADeletionShortensIt) {
  PodWorld world(kOne);
  world.Run();
  world.eviction = Eviction{.why = kWhy, .signal = "emptydirfs.limit"};
  world.Run();
  world.eviction.reset();
  world.RestartAgent();
  EXPECT_TRUE(world.Run().empty()) << "the signal was sent";
  world.Exit("app", 0);
  world.Run();
  EXPECT_EQ(world.last.status.reason(), "Evicted");
  world.deletion_grace = seconds(0);
  EXPECT_EQ(world.Run(), Actions{"clean up"});
}

}  // namespace
}  // namespace holdfast::agent
