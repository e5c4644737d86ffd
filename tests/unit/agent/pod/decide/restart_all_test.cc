// SPDX-License-Identifier: Apache-2.0
// restartPolicyRules with the action RestartAllContainers.
#include <gtest/gtest.h>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

constexpr char kAllRestart[] = R"(restartPolicy: "Never"
    initContainers { name: "i" image: "x" }
    containers { name: "watcher" image: "x" restartPolicy: "Never"
      restartPolicyRules { action: "RestartAllContainers"
                           exitCodes { operator: "In" values: 42 } } }
    containers { name: "app" image: "x" }
    containers { name: "done" image: "x" })";

// Init container done, all main containers up, one of them ended for good.
PodWorld OneIsDone() {
  PodWorld world(kAllRestart);
  world.Run();
  world.Exit("i", 0);
  world.Run();
  world.Exit("done", 0);
  world.Run();
  world.events.clear();
  return world;
}

TEST(RestartAllTest, OneExitTakesAllOthersWithIt) {
  PodWorld world = OneIsDone();
  EXPECT_EQ(world.Condition("AllContainersRestarting"), "False");
  world.Exit("watcher", 42);
  const auto first = world.Look();
  EXPECT_EQ(first, (Actions{"remove watcher#0", "kill app"})) << "without a signal and grace";
  EXPECT_EQ(world.Condition("AllContainersRestarting"), "True(RestartAllContainersStarted)");
  EXPECT_EQ(world.last.status.phase(), "Running");
  for (const Action& action : world.last.actions) world.CarryOut(action);

  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "start i#1"})) << "in the same sandbox";
  EXPECT_EQ(world.Condition("AllContainersRestarting"), "False");
  EXPECT_EQ(world.Condition("Initialized"), "True") << "a pod stays initialized";
  EXPECT_EQ(world.last.status.phase(), "Running");
  EXPECT_EQ(world.State("watcher"), "waiting RestartingAllContainers");
  EXPECT_EQ(world.State("app"), "waiting RestartingAllContainers");
  const auto& last = world.Status("app").laststate().terminated();
  EXPECT_EQ(last.reason(), "RestartingAllContainers");
  EXPECT_EQ(last.message(), "The container is removed because RestartAllContainers in place");
  EXPECT_EQ(last.exitcode(), 137);

  world.Exit("i", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove i#1", "start watcher#1", "start app#1", "start done#1"}))
      << "what had ended for good runs again too";
  EXPECT_EQ(world.Status("app").restartcount(), 1);
  EXPECT_EQ(world.State("app"), "running");
}

TEST(RestartAllTest, AnotherExitCodeFollowsThePolicy) {
  PodWorld world = OneIsDone();
  world.Exit("watcher", 1);
  EXPECT_EQ(world.Run(), (Actions{"remove watcher#0"}));
  EXPECT_EQ(world.State("watcher"), "terminated Error 1");
  EXPECT_EQ(world.State("app"), "running");
}

TEST(RestartAllTest, TheFirstMatchingRuleCounts) {
  PodWorld world(R"(restartPolicy: "Never"
    containers { name: "a" image: "x" restartPolicy: "Never"
      restartPolicyRules { action: "Restart" exitCodes { operator: "In" values: 42 } }
      restartPolicyRules { action: "RestartAllContainers"
                           exitCodes { operator: "NotIn" values: 0 } } }
    containers { name: "b" image: "x" })");
  world.Run();
  world.Exit("a", 42);
  EXPECT_EQ(world.Run(), (Actions{"remove a#0", "start a#1"}));
  EXPECT_EQ(world.State("b"), "running");
}

TEST(RestartAllTest, ItGoesOnAfterARestartOfTheAgent) {
  PodWorld world = OneIsDone();
  world.Exit("watcher", 42);
  world.Look();
  world.RestartAgent();
  EXPECT_EQ(world.Run(), (Actions{"remove watcher#0", "kill app", "remove app#0", "ensure volumes",
                                  "start i#1"}));
}

TEST(RestartAllTest, TheSecondTimeWaitsForTheBackOff) {
  PodWorld world = OneIsDone();
  for (int round = 0; round < 2; ++round) {
    world.Exit("watcher", 42);
    world.Run();
    world.Exit("i", 0);
    world.Run();
  }
  EXPECT_EQ(world.State("i"), "waiting CrashLoopBackOff");
  EXPECT_EQ(world.State("watcher"), "waiting RestartingAllContainers");
  world.Pass(std::chrono::seconds(10));
  world.Run();
  EXPECT_EQ(world.State("i"), "running");
}

TEST(RestartAllTest, APodThatIsDeletedJustEnds) {
  PodWorld world = OneIsDone();
  world.Exit("watcher", 42);
  world.deletion_grace = std::chrono::seconds(30);
  EXPECT_EQ(world.Run(), (Actions{"remove watcher#0", "signal app 15"}));
  EXPECT_EQ(world.Condition("AllContainersRestarting"), "False");
  world.Exit("app", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "remove sandbox", "clean up"}));
}

}  // namespace
}  // namespace holdfast::agent
