// SPDX-License-Identifier: Apache-2.0
// What a pod is made from that the API server has: what waits for it, and what follows it.
#include <gtest/gtest.h>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

PodWorld World() {
  PodWorld world(kOne);
  world.memory.origin = PodOrigin::kApi;
  return world;
}

TEST(InputsTest, TheSandboxDoesNotWaitForThemStartsAndVolumesDo) {
  PodWorld world = World();
  world.inputs = {true, 1};
  EXPECT_EQ(world.Run(), Actions{"ensure sandbox"});
  EXPECT_EQ(world.State("app"), "waiting ContainerCreating");
  EXPECT_EQ(world.events, Actions{}) << "waiting is no trouble";
  world.inputs = {false, 3};
  EXPECT_EQ(world.Run(), (Actions{"ensure volumes", "start app#0"}));
  EXPECT_EQ(world.memory.volumes_version, 3u);
}

TEST(InputsTest, TheSandboxWaitsForItsClassOfRuntimeAnImageIsPulledMeanwhile) {
  PodWorld world = World();
  world.images["x"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  world.inputs = {.pending = true, .version = 1, .sandbox_pending = true};
  EXPECT_EQ(world.Run(), Actions{"pull app#0 x"});
  world.inputs = {.version = 1};
  EXPECT_EQ(world.Run(), (Actions{"ensure volumes", "ensure sandbox", "start app#0"}));
}

TEST(InputsTest, VolumesWaitForThemAlsoWhileAnImageIsPulled) {
  PodWorld world = World();
  world.images["x"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  world.inputs = {true, 1};
  EXPECT_EQ(world.Run(), (Actions{"ensure sandbox", "pull app#0 x"}));
  world.inputs = {false, 3};
  EXPECT_EQ(world.Run(), (Actions{"ensure volumes", "start app#0"}));
}

TEST(InputsTest, VolumesOfARunningPodFollowThem) {
  PodWorld world = World();
  world.inputs = {false, 1};
  world.Run();
  EXPECT_EQ(world.Look(), Actions{});
  world.inputs = {true, 2};
  EXPECT_EQ(world.Look(), Actions{}) << "not all of it is there";
  world.inputs = {false, 2};
  EXPECT_EQ(world.Run(), Actions{"ensure volumes"});
  EXPECT_EQ(world.State("app"), "running");
}

TEST(InputsTest, ANewAgentShowsWhatCameMeanwhile) {
  PodWorld world = World();
  world.inputs = {false, 1};
  world.Run();
  world.RestartAgent();
  world.inputs = {true, 0};
  EXPECT_EQ(world.Look(), Actions{});
  world.inputs = {false, 1};
  EXPECT_EQ(world.Run(), Actions{"ensure volumes"});
}

TEST(InputsTest, ARestartWaitsForThem) {
  PodWorld world = World();
  world.inputs = {false, 1};
  world.Run();
  world.Exit("app", 1);
  world.inputs = {true, 1};
  world.Run();
  world.Pass(std::chrono::minutes(10));
  EXPECT_EQ(world.Run(), Actions{});
  world.inputs = {false, 1};
  EXPECT_EQ(world.Run().back(), "start app#1");
}

TEST(InputsTest, AnEndNeedsNone) {
  PodWorld world = World();
  world.inputs = {false, 1};
  world.Run();
  world.inputs = {true, 7};
  world.deletion_grace = std::chrono::seconds(5);
  EXPECT_EQ(world.Run(), Actions{"signal app 15"});
  world.Exit("app", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "remove sandbox", "release volumes"}));
}

}  // namespace
}  // namespace holdfast::agent
