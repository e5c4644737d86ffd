// SPDX-License-Identifier: Apache-2.0
// Pods of an API server: what is different about their end, and what others say of them.
#include <gtest/gtest.h>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;

constexpr char kJob[] = R"(restartPolicy: "Never" containers { name: "app" image: "x" })";

PodWorld World(const char* spec) {
  PodWorld world(spec);
  world.memory.origin = PodOrigin::kApi;
  return world;
}

void SetCondition(PodWorld& world, const std::string& type, const std::string& status) {
  corev1::PodCondition* condition = world.pod.mutable_status()->add_conditions();
  condition->set_type(type);
  condition->set_status(status);
}

TEST(ApiPodTest, ADeletedPodIsReleasedAndForgottenWhenItsObjectIsGone) {
  PodWorld world = World(kOne);
  world.Run();
  world.deletion_grace = seconds(30);
  EXPECT_EQ(world.Run(), Actions{"signal app 15"});
  EXPECT_FALSE(world.last.released);
  world.Exit("app", 0);
  EXPECT_EQ(world.Look(), (Actions{"remove app#0", "remove sandbox", "release volumes"}));
  EXPECT_EQ(world.last.status.phase(), "Succeeded") << "told before anything is taken away";
  EXPECT_FALSE(world.last.released);
  world.Run();
  EXPECT_TRUE(world.last.released);
  EXPECT_EQ(world.Run(), Actions{}) << "its record and logs stay until the server lets it go";
  world.object_gone = true;
  EXPECT_EQ(world.Run(), Actions{"clean up"});
  EXPECT_TRUE(world.cleaned);
}

TEST(ApiPodTest, VolumesAndSandboxGoSideBySide) {
  PodWorld world = World(kOne);
  world.Run();
  world.deletion_grace = seconds(30);
  world.Run();
  world.Exit("app", 0);
  world.Look();
  ASSERT_EQ(world.last.begin.size(), 1u) << "first the container";
  world.CarryOut(world.last.begin[0]);
  world.Look();
  EXPECT_EQ(world.last.begin.size(), 2u);
  world.under_way = {{world.last.begin[0], true, world.boot, false}};
  world.CarryOut(world.last.begin[0]);
  world.CarryOut(world.last.begin[1]);
  world.Look();
  EXPECT_FALSE(world.last.released) << "one has not ended";
  world.under_way.clear();
  world.Look();
  EXPECT_TRUE(world.last.released);
}

TEST(ApiPodTest, AFinishedPodThatNobodyDeletedIsReleasedAndKept) {
  PodWorld world = World(kJob);
  world.Run();
  world.Exit("app", 3);
  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "remove sandbox", "release volumes"}));
  EXPECT_EQ(world.last.status.phase(), "Failed");
  EXPECT_EQ(world.State("app"), "terminated Error 3");
  EXPECT_EQ(world.last.status.podip(), "10.88.0.2") << "that stays";
  EXPECT_TRUE(world.last.released);
  world.RestartAgent();
  EXPECT_EQ(world.Look(), Actions{"release volumes"}) << "whatever a former agent came to";
  EXPECT_FALSE(world.last.released);
  world.Run();
  EXPECT_TRUE(world.last.released);
  world.deletion_grace = seconds(0);
  world.object_gone = true;
  EXPECT_EQ(world.Run(), Actions{"clean up"});
}

TEST(ApiPodTest, APodWhoseObjectVanishedIsStoppedAndForgotten) {
  PodWorld world = World(kOne);
  world.Run();
  world.deletion_grace = seconds(30);
  world.object_gone = true;
  EXPECT_EQ(world.Run(), Actions{"signal app 15"});
  world.Exit("app", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "remove sandbox", "clean up"}));
}

TEST(ApiPodTest, APodOfAFileIsNeverReleasedOnly) {
  PodWorld world(kJob);
  world.Run();
  world.Exit("app", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "remove sandbox"}));
  EXPECT_FALSE(world.last.released);
}

TEST(ApiPodTest, WhatHasEndedOnTheServerIsNeverStarted) {
  PodWorld world = World(kOne);
  world.pod.mutable_status()->set_phase("Failed");
  world.pod.mutable_status()->set_reason("Evicted");
  world.pod.mutable_status()->add_containerstatuses()->set_name("app");
  world.memory.containers["app"].attempts = 3;  // counted on, by what the server said
  EXPECT_EQ(world.Run(), Actions{"release volumes"});
  EXPECT_EQ(world.last.status.SerializeAsString(), world.pod.status().SerializeAsString());
  EXPECT_TRUE(world.last.released);
  world.RestartAgent();
  EXPECT_EQ(world.Run(), Actions{"release volumes"});
}

TEST(ApiPodTest, WhatOthersEndIsStoppedAndKeepsItsPhase) {
  PodWorld world = World(kOne);
  world.Run();
  world.pod.mutable_status()->set_phase("Failed");
  world.pod.mutable_status()->set_reason("NodeLost");
  EXPECT_EQ(world.Run(), Actions{"signal app 15"});
  EXPECT_EQ(world.last.status.phase(), "Running") << "a container runs";
  world.Exit("app", 0);
  world.Run();
  EXPECT_EQ(world.last.status.phase(), "Failed");
  EXPECT_EQ(world.last.status.reason(), "NodeLost");
  EXPECT_EQ(world.State("app"), "terminated Completed 0");
}

TEST(ApiPodTest, AFileHasNoSayInItsPodsStatus) {
  PodWorld world(R"(containers { name: "app" image: "x" } readinessGates { conditionType: "g" })");
  world.pod.mutable_status()->set_phase("Failed");
  SetCondition(world, "g", "True");
  world.Run();
  EXPECT_EQ(world.last.status.phase(), "Running");
  EXPECT_EQ(world.Condition("Ready"), "False(ReadinessGatesNotReady)");
  EXPECT_EQ(world.Condition("g"), "absent");
}

TEST(ApiPodTest, ReadinessGatesAreOthersConditions) {
  PodWorld world = World(R"(containers { name: "app" image: "x" }
                            readinessGates { conditionType: "g" }
                            readinessGates { conditionType: "h" })");
  SetCondition(world, "g", "False");
  world.Run();
  EXPECT_EQ(world.Condition("Ready"), "False(ReadinessGatesNotReady)");
  EXPECT_EQ(world.last.status.conditions(2).message(),
            "the status of pod readiness gate \"g\" is not \"True\", but False, corresponding "
            "condition of pod readiness gate \"h\" does not exist.");
  EXPECT_EQ(world.Condition("ContainersReady"), "True");
  world.pod.mutable_status()->mutable_conditions(0)->set_status("True");
  SetCondition(world, "h", "True");
  world.Look();
  EXPECT_EQ(world.Condition("Ready"), "True");
  EXPECT_EQ(world.Condition("h"), "True") << "kept";
}

TEST(ApiPodTest, TheStatusSaysWhichGenerationItIsOf) {
  PodWorld world = World(kOne);
  world.pod.mutable_metadata()->set_generation(4);
  world.Run();
  EXPECT_EQ(world.last.status.observedgeneration(), 4);
  for (const auto& condition : world.last.status.conditions()) {
    EXPECT_EQ(condition.observedgeneration(), 4) << condition.type();
  }
}

}  // namespace
}  // namespace holdfast::agent
