// SPDX-License-Identifier: Apache-2.0
// Ephemeral containers: put into a pod that is there, to look at the others.
#include <gtest/gtest.h>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

constexpr char kRestarted[] = R"(restartPolicy: "Always" containers { name: "app" image: "x" })";

void Debug(PodWorld& world, const std::string& name = "debugger") {
  auto* added = world.pod.mutable_spec()->add_ephemeralcontainers();
  added->mutable_ephemeralcontainercommon()->set_name(name);
  added->mutable_ephemeralcontainercommon()->set_image("x");
  added->set_targetcontainername("app");
}

const corev1::ContainerStatus& StatusOf(const PodWorld& world) {
  EXPECT_EQ(world.last.status.ephemeralcontainerstatuses_size(), 1);
  return world.last.status.ephemeralcontainerstatuses(0);
}

TEST(EphemeralTest, OneIsStartedInARunningPodAndIsShownInAListOfItsOwn) {
  PodWorld world(kRestarted);
  world.Run();
  Debug(world);
  EXPECT_EQ(world.Look(), Actions{"start debugger#0"});
  EXPECT_EQ(StatusOf(world).state().waiting().reason(), "ContainerCreating");
  world.Run();
  world.Look();
  EXPECT_TRUE(StatusOf(world).state().has_running());
  EXPECT_FALSE(StatusOf(world).ready());
  EXPECT_FALSE(StatusOf(world).has_started());
  EXPECT_EQ(world.last.status.containerstatuses_size(), 1);
  EXPECT_EQ(world.Condition("ContainersReady"), "True");
}

TEST(EphemeralTest, ItsEventsNameItsList) {
  PodWorld world(kRestarted);
  world.Run();
  Debug(world);
  world.images["x"].state = ImageFact::State::kAbsent;
  world.Look();
  ASSERT_FALSE(world.last.events.empty());
  EXPECT_TRUE(world.last.events[0].ephemeral);
  EXPECT_FALSE(world.last.events[0].init);
}

TEST(EphemeralTest, ItIsNeverStartedAgainAndDoesNotCount) {
  for (const int code : {0, 3}) {
    PodWorld world(kRestarted);
    world.Run();
    Debug(world);
    world.Run();
    world.Exit("debugger", code);
    EXPECT_EQ(world.Run(), Actions{"remove debugger#0"});
    world.Pass(std::chrono::minutes(10));
    EXPECT_EQ(world.Run(), Actions{});
    EXPECT_EQ(StatusOf(world).state().terminated().exitcode(), code);
    EXPECT_EQ(StatusOf(world).restartcount(), 0);
    EXPECT_EQ(world.last.status.phase(), "Running");
    EXPECT_EQ(world.Condition("ContainersReady"), "True");
  }
}

// As a new agent knows it from the status that the API server has: it ran, and there is nothing of it here.
TEST(EphemeralTest, OneWhoseEndNobodySawHasNoTimes) {
  PodWorld world(kRestarted);
  world.Run();
  Debug(world);
  ContainerMemory& memory = world.memory.containers["debugger"];
  memory.attempts = 1;
  memory.last.emplace();
  memory.last->exit_code = 137;
  memory.last->reason = "ContainerStatusUnknown";
  EXPECT_EQ(world.Look(), Actions{});
  const auto& terminated = StatusOf(world).state().terminated();
  EXPECT_EQ(terminated.reason(), "ContainerStatusUnknown");
  EXPECT_FALSE(terminated.has_startedat());
  EXPECT_FALSE(terminated.has_finishedat());
}

TEST(EphemeralTest, APodThatIsDoneDoesNotWaitForIt) {
  PodWorld world(R"(restartPolicy: "Never" containers { name: "app" image: "x" })");
  world.Run();
  Debug(world);
  world.Run();
  world.Exit("app", 0);
  world.Run();
  EXPECT_NE(std::ranges::find(world.events, "Killing: Stopping container debugger"),
            world.events.end());
}

TEST(EphemeralTest, ItDoesNotWaitForInitContainers) {
  PodWorld waiting(
      R"(initContainers { name: "first" image: "x" } containers { name: "app" image: "x" })");
  waiting.Run();
  Debug(waiting);
  EXPECT_EQ(waiting.Look(), Actions{"start debugger#0"});
}

TEST(EphemeralTest, WithTheSandboxItIsLostForGood) {
  PodWorld world(kRestarted);
  world.Run();
  Debug(world);
  world.Run();
  world.containers.clear();
  world.sandbox_ready = world.sandbox_exists = false;
  const Actions again = world.Run();
  EXPECT_EQ(std::ranges::count(again, "start app#1"), 1);
  EXPECT_EQ(
      std::ranges::count_if(again, [](const auto& a) { return a.starts_with("start debugger"); }),
      0);
}

}  // namespace
}  // namespace holdfast::agent
