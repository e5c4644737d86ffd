// SPDX-License-Identifier: Apache-2.0
// postStart and preStop: what waits for them, what their failure does, how long they may take.
#include <gtest/gtest.h>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;

constexpr char kPostStart[] =
    R"(containers { name: "a" image: "x" lifecycle { postStart { exec { command: "p" } } } }
       containers { name: "b" image: "x" })";
constexpr char kPreStop[] =
    R"(containers { name: "a" image: "x" lifecycle { preStop { exec { command: "p" } } } })";

// Decides, and carries out everything but hooks, which are under way from then on.
std::vector<std::string> RunButHooks(PodWorld& world) {
  std::vector<std::string> all;
  for (int round = 0; round < 10; ++round) {
    world.Look();
    if (world.last.begin.empty()) return all;
    for (const Action& action : world.last.begin) {
      all.push_back(ToString(action));
      const bool hook =
          action.kind == Action::Kind::kPostStart || action.kind == Action::Kind::kPreStop;
      if (hook) {
        world.under_way.push_back({action, true, world.boot, false});
      } else {
        world.CarryOut(action);
      }
    }
  }
  return all;
}

void EndHook(PodWorld& world, const std::string& error = "") {
  ASSERT_EQ(world.under_way.size(), 1u);
  world.End(world.under_way[0].action, error);
  world.under_way.clear();
}

TEST(PostStartTest, HoldsUpWhatFollowsAndTheContainerIsNotThereYet) {
  PodWorld world(kPostStart);
  EXPECT_EQ(RunButHooks(world),
            (Actions{"ensure volumes", "ensure sandbox", "start a#0", "post-start a#0"}));
  EXPECT_EQ(world.State("a"), "waiting ContainerCreating");
  EXPECT_FALSE(world.Status("a").started());
  EXPECT_EQ(world.last.status.phase(), "Pending");
  EndHook(world);
  EXPECT_EQ(RunButHooks(world), (Actions{"start b#0"}));
  EXPECT_EQ(world.State("a"), "running");
  EXPECT_EQ(world.last.status.phase(), "Running");
  EXPECT_EQ(world.Condition("Ready"), "True");
}

TEST(PostStartTest, ItsFailureKillsTheContainer) {
  PodWorld world(kPostStart);
  RunButHooks(world);
  world.events.clear();
  EndHook(world, "Exec lifecycle hook failed");
  EXPECT_EQ(RunButHooks(world), (Actions{"signal a 15", "start b#0"}));
  EXPECT_EQ(world.events[0], "FailedPostStartHook: PostStartHook failed");
  EXPECT_EQ(world.events[1], "Killing: FailedPostStartHook");
  EXPECT_EQ(world.State("a"), "waiting ContainerCreating");
  world.Exit("a", 143, 15);
  world.Look();
  EXPECT_EQ(world.State("a"), "waiting PostStartHookError");
  EXPECT_EQ(world.Status("a").state().waiting().message(), "Exec lifecycle hook failed");
  EXPECT_EQ(world.Status("a").laststate().terminated().exitcode(), 143);
  world.Pass(seconds(2));
  EXPECT_EQ(RunButHooks(world), (Actions{"remove a#0", "start a#1", "post-start a#1"}));
}

TEST(PostStartTest, AFailedOneOfAPodThatNeverRestartsEndsIt) {
  PodWorld world(StrCat("restartPolicy: \"Never\" ", kPostStart));
  RunButHooks(world);
  EndHook(world, "no");
  RunButHooks(world);
  world.Exit("a", 143, 15);
  world.Exit("b", 0);
  world.Run();
  EXPECT_EQ(world.State("a"), "terminated Error 143");
  EXPECT_EQ(world.last.status.phase(), "Failed");
}

TEST(PostStartTest, AKilledAgentsIsCarriedOutAgain) {
  PodWorld world(kPostStart);
  RunButHooks(world);
  world.under_way.clear();
  world.RestartAgent();
  EXPECT_EQ(world.Look(), (Actions{"post-start a#0", "ensure volumes", "start b#0"}));
  EXPECT_EQ(world.State("a"), "waiting ContainerCreating");
}

TEST(PostStartTest, GoesOnWhileVolumesCannotBeBroughtUpToDate) {
  PodWorld world(kPostStart);
  RunButHooks(world);
  world.memory.failure = Failure{"FailedMount", "no", world.boot + seconds(10)};
  EXPECT_EQ(world.Look(), (Actions{"post-start a#0"}));
  EXPECT_TRUE(world.last.cancel.empty());
}

TEST(PostStartTest, IsCancelledWhenThePodEnds) {
  PodWorld world(kPostStart);
  RunButHooks(world);
  world.deletion_grace = seconds(30);
  EXPECT_EQ(world.Look(), (Actions{"signal a 15"}));
  ASSERT_EQ(world.last.cancel.size(), 1u);
  EXPECT_EQ(ToString(world.last.cancel[0]), "post-start a#0");
}

TEST(PreStopTest, ComesBeforeTheSignalWithinTheGracePeriod) {
  PodWorld world(kPreStop);
  world.Run();
  world.events.clear();
  world.deletion_grace = seconds(30);
  EXPECT_EQ(RunButHooks(world), (Actions{"pre-stop a#0"}));
  EXPECT_EQ(world.events, (Actions{"Killing: Stopping container a"}));
  world.Pass(seconds(20));
  EXPECT_TRUE(RunButHooks(world).empty());
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(10));
  EndHook(world);
  EXPECT_EQ(RunButHooks(world), (Actions{"signal a 15"}));
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(10)) << "the time of the hook counts";
  world.Pass(seconds(10));
  EXPECT_EQ(world.Look(), (Actions{"kill a"}));
}

TEST(PreStopTest, ThatOverrunsIsGivenUpAndTwoSecondsAreLeft) {
  PodWorld world(kPreStop);
  world.Run();
  world.deletion_grace = seconds(10);
  RunButHooks(world);
  world.Pass(seconds(10));
  EXPECT_EQ(RunButHooks(world), (Actions{"signal a 15"}));
  ASSERT_EQ(world.last.cancel.size(), 1u);
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(2));
  world.Pass(seconds(2));
  EXPECT_EQ(world.Look(), (Actions{"kill a"}));
}

// An unhealthy container whose image was changed, too: found by random orders of events.
TEST(PreStopTest, IsRunOnceForTwoReasonsToStop) {
  PodWorld world(R"(containers { name: "app" image: "x"
      livenessProbe { handler { tcpSocket { port { intVal: 80 } } } }
      lifecycle { preStop { sleep { seconds: 1 } } } })");
  world.Run();
  world.Probed("app", ProbeKind::kLiveness, ProbeResult::kFailure);
  world.pod.mutable_spec()->mutable_containers(0)->set_image("y");
  world.images["y"] = world.images["x"];
  EXPECT_EQ(world.Look(), Actions{"pre-stop app#0"});
}

TEST(PreStopTest, ItsFailureIsToldWithoutWhatItSaid) {
  PodWorld world(kPreStop);
  world.Run();
  world.events.clear();
  world.deletion_grace = seconds(30);
  RunButHooks(world);
  EndHook(world, "the password is x");
  EXPECT_EQ(RunButHooks(world), (Actions{"signal a 15"}));
  EXPECT_EQ(world.events,
            (Actions{"Killing: Stopping container a", "FailedPreStopHook: PreStopHook failed"}));
}

TEST(PreStopTest, IsNotRunWithoutGraceNorForWhatEndedByItself) {
  PodWorld world(kPreStop);
  world.Run();
  world.deletion_grace = seconds(0);
  EXPECT_EQ(RunButHooks(world), (Actions{"signal a 15"}));
  PodWorld other(kPreStop);
  other.Run();
  other.Exit("a", 0);
  EXPECT_EQ(RunButHooks(other), (Actions{"remove a#0", "start a#1"}));
}

TEST(PreStopTest, IsGivenUpWhenTheContainerEndsInIt) {
  PodWorld world(kPreStop);
  world.Run();
  world.deletion_grace = seconds(30);
  RunButHooks(world);
  world.Exit("a", 0);
  world.Look();
  ASSERT_EQ(world.last.cancel.size(), 1u);
  EXPECT_EQ(ToString(world.last.cancel[0]), "pre-stop a#0");
}

TEST(PreStopTest, AKilledAgentsIsCarriedOutAgainForWhatIsLeftOfTheTime) {
  PodWorld world(kPreStop);
  world.Run();
  world.deletion_grace = seconds(30);
  RunButHooks(world);
  world.Pass(seconds(12));
  world.under_way.clear();
  world.RestartAgent();
  world.events.clear();
  EXPECT_EQ(RunButHooks(world), (Actions{"pre-stop a#0"}));
  EXPECT_TRUE(world.events.empty()) << "it was told";
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(18));
  EndHook(world);
  RunButHooks(world);
  world.RestartAgent();
  EXPECT_TRUE(RunButHooks(world).empty()) << "neither the hook nor the signal again";
}

TEST(PreStopTest, SidecarsBeginTheirsAtOnceAndAreSignalledInTheirTurn) {
  PodWorld world(R"(initContainers { name: "s1" image: "x" restartPolicy: "Always"
                      lifecycle { preStop { exec { command: "p" } } } }
                    initContainers { name: "s2" image: "x" restartPolicy: "Always" }
                    containers { name: "app" image: "x" })");
  world.Run();
  world.deletion_grace = seconds(30);
  EXPECT_EQ(RunButHooks(world), (Actions{"signal app 15", "pre-stop s1#0"}));
  EndHook(world);
  EXPECT_TRUE(RunButHooks(world).empty()) << "the main container still runs";
  world.Exit("app", 0);
  EXPECT_EQ(RunButHooks(world), (Actions{"remove app#0", "signal s2 15"}));
  world.Exit("s2", 0);
  EXPECT_EQ(RunButHooks(world), (Actions{"remove s2#0", "signal s1 15"}));
}

}  // namespace
}  // namespace holdfast::agent
