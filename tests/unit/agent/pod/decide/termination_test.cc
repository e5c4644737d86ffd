// SPDX-License-Identifier: Apache-2.0
// Graceful termination: order, grace, SIGKILL, shortening, a restart of the agent in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;

constexpr char kBoth[] =
    R"(containers { name: "a" image: "x" } containers { name: "b" image: "x" })";

TEST(TerminationTest, StopsAllContainersAtOnceAndCleansUpWhenTheyAreGone) {
  PodWorld world(kBoth);
  world.Run();
  world.events.clear();
  world.deletion_grace = seconds(30);
  EXPECT_EQ(world.Run(), (Actions{"signal a 15", "signal b 15"}));
  EXPECT_EQ(world.events,
            (Actions{"Killing: Stopping container a", "Killing: Stopping container b"}));
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(30));
  EXPECT_EQ(world.last.status.phase(), "Running");
  world.Exit("a", 0);
  world.Exit("b", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove a#0", "remove b#0", "remove sandbox", "clean up"}));
  EXPECT_EQ(world.last.status.phase(), "Succeeded");
  EXPECT_TRUE(world.cleaned);
}

TEST(TerminationTest, KillsWhatIsThereWhenTheGraceIsOver) {
  PodWorld world(kBoth);
  world.Run();
  world.deletion_grace = seconds(10);
  world.Run();
  world.Pass(seconds(4));
  world.Exit("a", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove a#0"}));
  world.Pass(seconds(5));
  EXPECT_TRUE(world.Run().empty()) << "a second is left";
  world.Pass(seconds(1));
  EXPECT_EQ(world.Run(), (Actions{"kill b", "remove b#0", "remove sandbox", "clean up"}));
  EXPECT_EQ(world.last.status.phase(), "Failed");
}

TEST(TerminationTest, ThereAreAlwaysTwoSecondsBetweenSignalAndKill) {
  PodWorld world(kBoth);
  world.Run();
  world.deletion_grace = seconds(0);
  EXPECT_EQ(world.Run(), (Actions{"signal a 15", "signal b 15"}));
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(2));
}

TEST(TerminationTest, ASmallerGraceShortensAndALargerOneDoesNothing) {
  PodWorld world(kBoth);
  world.Run();
  world.deletion_grace = seconds(60);
  world.Run();
  world.Pass(seconds(10));
  world.deletion_grace = seconds(5);
  world.Run();
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(5));
  world.deletion_grace = seconds(100);
  world.Run();
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(5));
}

TEST(TerminationTest, SidecarsStopAfterTheMainContainersInReverseOrder) {
  PodWorld world(R"(initContainers { name: "s1" image: "x" restartPolicy: "Always" }
      initContainers { name: "s2" image: "x" restartPolicy: "Always" }
      containers { name: "app" image: "x" })");
  world.Run();
  world.deletion_grace = seconds(10);
  EXPECT_EQ(world.Run(), (Actions{"signal app 15"}));
  world.Pass(seconds(10));
  EXPECT_EQ(world.Run(), (Actions{"kill app", "signal s2 15", "signal s1 15", "remove app#0"}))
      << "the grace is shared, so it is over for the sidecars too: as by a kubelet in no order";
  world.Pass(seconds(2));
  EXPECT_EQ(world.Run(), (Actions{"kill s2", "kill s1", "remove s1#0", "remove s2#0",
                                  "remove sandbox", "clean up"}));
}

TEST(TerminationTest, SidecarsStopOneAfterTheOtherWithinTheGrace) {
  PodWorld world(R"(initContainers { name: "s1" image: "x" restartPolicy: "Always" }
      initContainers { name: "s2" image: "x" restartPolicy: "Always" }
      containers { name: "app" image: "x" })");
  world.Run();
  world.deletion_grace = seconds(10);
  world.events.clear();
  EXPECT_EQ(world.Run(), (Actions{"signal app 15"}));
  EXPECT_EQ(world.events,
            (Actions{"Killing: Stopping container app", "Killing: Stopping container s2",
                     "Killing: Stopping container s1"}));
  world.Exit("app", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "signal s2 15"}));
  world.Exit("s2", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove s2#0", "signal s1 15"}));
}

TEST(TerminationTest, TheStopSignalIsThePodsThenTheImagesThenSigterm) {
  PodWorld world(R"(containers { name: "a" image: "x" lifecycle { stopSignal: "SIGUSR1" } }
                    containers { name: "b" image: "y" } containers { name: "c" image: "z" })");
  world.images["x"].stop_signal = "SIGQUIT";
  world.images["y"].stop_signal = "SIGRTMIN+3";
  world.Run();
  world.deletion_grace = seconds(30);
  EXPECT_EQ(world.Run(), (Actions{"signal a 10", "signal b 37", "signal c 15"}));
}

TEST(TerminationTest, ARestartedAgentGoesOnWhereItWas) {
  PodWorld world(kBoth);
  world.Run();
  world.deletion_grace = seconds(30);
  world.Run();
  world.Pass(seconds(20));
  world.RestartAgent();
  EXPECT_TRUE(world.Run().empty()) << "no second signal";
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(10));
  world.Pass(seconds(10));
  EXPECT_EQ(world.Look(), (Actions{"kill a", "kill b"}));
}

TEST(TerminationTest, APodThatNeverRanIsJustCleanedUp) {
  PodWorld world(kBoth);
  world.deletion_grace = seconds(30);
  EXPECT_EQ(world.Run(), (Actions{"clean up"}));
  EXPECT_EQ(world.last.status.phase(), "Failed");
}

TEST(TerminationTest, ACompletedPodThatIsDeletedKeepsItsPhase) {
  PodWorld world(StrCat("restartPolicy: \"Never\" ", kBoth));
  world.Run();
  world.Exit("a", 0);
  world.Exit("b", 0);
  world.Run();
  world.deletion_grace = seconds(30);
  EXPECT_EQ(world.Run(), (Actions{"clean up"}));
  EXPECT_EQ(world.last.status.phase(), "Succeeded");
}

TEST(TerminationTest, AKillThatTakesTooLongIsToldOnce) {
  const auto exceeded = [](const PodWorld& world) {
    return std::ranges::count_if(world.events, [](const std::string& event) {
      return event ==
             "ExceededGracePeriod: Container runtime did not kill the pod within specified grace "
             "period.";
    });
  };
  // After half the grace more, but not within ten seconds.
  for (const auto& [grace, told_after] : {std::pair{30, 45}, {4, 10}, {0, 10}}) {
    PodWorld world(kBoth);
    world.Run();
    world.deletion_grace = seconds(grace);
    world.Run();
    world.Pass(seconds(told_after) - std::chrono::milliseconds(1));
    world.Look();  // what it says is not carried out: the processes hang in the kernel
    EXPECT_EQ(exceeded(world), 0) << grace;
    world.Pass(std::chrono::milliseconds(1));
    world.Look();
    EXPECT_EQ(exceeded(world), 1) << grace;
    world.Pass(seconds(60));
    world.Look();
    EXPECT_EQ(exceeded(world), 1) << grace;
  }
}

TEST(TerminationTest, KillIsRepeatedWhileTheContainerIsThere) {
  PodWorld world(R"(containers { name: "a" image: "x" })");
  world.Run();
  world.deletion_grace = seconds(3);
  world.Run();
  world.Pass(seconds(3));
  EXPECT_EQ(world.Look(), (Actions{"kill a"}));
  RecordKilled(world.memory, "a", world.boot);
  EXPECT_TRUE(world.Look().empty());
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(1));
  world.Pass(seconds(1));
  EXPECT_EQ(world.Look(), (Actions{"kill a"}));
}

}  // namespace
}  // namespace holdfast::agent
