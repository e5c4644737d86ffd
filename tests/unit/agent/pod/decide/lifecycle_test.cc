// SPDX-License-Identifier: Apache-2.0
// Start, restart policies, phases, conditions, init containers and sidecars.
#include <gtest/gtest.h>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

TEST(LifecycleTest, ANewPodGetsVolumesSandboxAndItsContainers) {
  PodWorld world(R"(containers { name: "a" image: "x" } containers { name: "b" image: "x" })");
  EXPECT_EQ(world.Look(), (Actions{"ensure volumes", "ensure sandbox", "start a#0", "start b#0"}));
  EXPECT_EQ(world.last.status.phase(), "Pending");
  EXPECT_EQ(world.State("a"), "waiting ContainerCreating");
  EXPECT_EQ(world.Condition("PodReadyToStartContainers"), "False");
  EXPECT_EQ(world.Condition("Ready"), "False(ContainersNotReady)");
  EXPECT_EQ(world.last.status.starttime().seconds(), 1'800'000'000);
  world.Run();
  EXPECT_EQ(world.last.status.phase(), "Running");
  EXPECT_EQ(world.State("a"), "running");
  EXPECT_EQ(world.Condition("Ready"), "True");
  EXPECT_EQ(world.Condition("ContainersReady"), "True");
  EXPECT_EQ(world.Condition("Initialized"), "True");
  EXPECT_EQ(world.Condition("PodScheduled"), "True");
  EXPECT_EQ(world.last.status.podip(), "10.88.0.2");
  EXPECT_EQ(world.last.status.hostip(), "192.0.2.1");
  EXPECT_EQ(world.last.status.qosclass(), "BestEffort");
  EXPECT_EQ(world.Status("a").containerid(), "holdfast://a-0");
  EXPECT_EQ(world.Status("a").imageid(), "sha256:1");
  EXPECT_EQ(world.Status("a").restartcount(), 0);
  EXPECT_FALSE(world.last.wake_at);
}

TEST(LifecycleTest, ConditionsComeInKubernetesOrderAndChangeTimeOnlyOnAFlip) {
  PodWorld world(kOne);
  world.Run();
  std::vector<std::string> types;
  for (const auto& c : world.last.status.conditions()) types.push_back(c.type());
  EXPECT_EQ(types, (std::vector<std::string>{"PodReadyToStartContainers", "Initialized", "Ready",
                                             "ContainersReady", "PodScheduled"}));
  const auto since = world.last.status.conditions(2).lasttransitiontime().seconds();
  world.Pass(std::chrono::seconds(100));
  world.Look();
  EXPECT_EQ(world.last.status.conditions(2).lasttransitiontime().seconds(), since);
}

struct PolicyRow {
  std::string policy;
  int exit_code;
  bool restarts;
  std::string phase;  // when it does not restart
};

class RestartPolicyTest : public ::testing::TestWithParam<PolicyRow> {};

TEST_P(RestartPolicyTest, DecidesWhetherAnExitedContainerComesBack) {
  const PolicyRow& row = GetParam();
  PodWorld world(StrCat("restartPolicy: \"", row.policy, "\" ", kOne));
  world.Run();
  world.Pass(std::chrono::seconds(5));
  world.Exit("app", row.exit_code);
  const Actions actions = world.Run();
  if (row.restarts) {
    EXPECT_EQ(actions, (Actions{"remove app#0", "start app#1"}));
    EXPECT_EQ(world.Status("app").restartcount(), 1);
    EXPECT_EQ(world.Status("app").laststate().terminated().exitcode(), row.exit_code);
    EXPECT_EQ(world.last.status.phase(), "Running");
  } else {
    EXPECT_EQ(actions, (Actions{"remove app#0", "remove sandbox"}));
    EXPECT_EQ(world.last.status.phase(), row.phase);
    EXPECT_EQ(world.Condition("Ready"),
              row.phase == "Succeeded" ? "False(PodCompleted)" : "False(PodFailed)");
    EXPECT_EQ(world.last.status.podip(), "10.88.0.2") << "the address stays in the status";
    EXPECT_TRUE(world.Look().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, RestartPolicyTest,
                         ::testing::Values(PolicyRow{"Always", 0, true, ""},
                                           PolicyRow{"Always", 1, true, ""},
                                           PolicyRow{"OnFailure", 0, false, "Succeeded"},
                                           PolicyRow{"OnFailure", 3, true, ""},
                                           PolicyRow{"Never", 0, false, "Succeeded"},
                                           PolicyRow{"Never", 7, false, "Failed"}));

TEST(LifecycleTest, ContainerRulesWinOverThePolicies) {
  PodWorld world(R"(restartPolicy: "Never" containers { name: "app" image: "x"
      restartPolicyRules { action: "Restart" exitCodes { operator: "In" values: 42 } } })");
  world.Run();
  world.Exit("app", 42);
  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "start app#1"}));
  world.Exit("app", 1);
  EXPECT_EQ(world.Run(), (Actions{"remove app#1", "remove sandbox"}));
  EXPECT_EQ(world.last.status.phase(), "Failed");
}

TEST(LifecycleTest, ExitReasonsAreKubernetesOwn) {
  PodWorld world(StrCat("restartPolicy: \"Never\" ", kOne));
  world.Run();
  world.Exit("app", 137, 9);
  world.containers[0].observed.exit->oom_killed = true;
  world.Run();
  EXPECT_EQ(world.State("app"), "terminated OOMKilled 137");
}

TEST(LifecycleTest, AContainerThatIsGoneEndsAsContainerStatusUnknown) {
  PodWorld world(StrCat("restartPolicy: \"Never\" ", kOne));
  world.Run();
  world.containers.clear();
  world.Run();
  EXPECT_EQ(world.State("app"), "terminated ContainerStatusUnknown 137");
  EXPECT_EQ(world.last.status.phase(), "Failed");
}

TEST(LifecycleTest, InitContainersRunOneByOneAndRetryOnFailure) {
  PodWorld world(
      R"(initContainers { name: "i1" image: "x" } initContainers { name: "i2" image: "x" }
                    containers { name: "app" image: "x" })");
  EXPECT_EQ(world.Run(), (Actions{"ensure volumes", "ensure sandbox", "start i1#0"}));
  EXPECT_EQ(world.State("app"), "waiting PodInitializing");
  EXPECT_EQ(world.Condition("Initialized"), "False(ContainersNotInitialized)");
  EXPECT_EQ(world.last.status.conditions(1).message(),
            "containers with incomplete status: [i1 i2]");
  world.Exit("i1", 1);
  EXPECT_EQ(world.Run(), (Actions{"remove i1#0", "start i1#1"}));
  world.Exit("i1", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove i1#1", "start i2#0"}));
  EXPECT_EQ(world.State("i1"), "terminated Completed 0");
  EXPECT_EQ(world.last.status.conditions(1).message(), "containers with incomplete status: [i2]");
  world.Exit("i2", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove i2#0", "start app#0"}));
  EXPECT_EQ(world.last.status.phase(), "Running");
  EXPECT_TRUE(world.Status("i1").ready());
}

TEST(LifecycleTest, AFailedInitContainerFailsAPodThatNeverRestarts) {
  PodWorld world(R"(restartPolicy: "Never" initContainers { name: "i" image: "x" }
                    containers { name: "app" image: "x" })");
  world.Run();
  world.Exit("i", 2);
  EXPECT_EQ(world.Run(), (Actions{"remove i#0", "remove sandbox"}));
  EXPECT_EQ(world.last.status.phase(), "Failed");
  EXPECT_EQ(world.State("app"), "waiting PodInitializing");
}

TEST(LifecycleTest, SidecarsStartInOrderKeepRunningAndEndWithTheMainContainers) {
  PodWorld world(R"(restartPolicy: "Never"
      initContainers { name: "s1" image: "x" restartPolicy: "Always" }
      initContainers { name: "i" image: "x" }
      initContainers { name: "s2" image: "x" restartPolicy: "Always" }
      containers { name: "app" image: "x" })");
  EXPECT_EQ(world.Run(), (Actions{"ensure volumes", "ensure sandbox", "start s1#0", "start i#0"}));
  world.Exit("i", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove i#0", "start s2#0", "start app#0"}));
  world.Exit("s1", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove s1#0", "start s1#1"})) << "a sidecar always comes back";
  world.Exit("app", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "signal s2 15"})) << "the last sidecar first";
  world.Exit("s2", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove s2#0", "signal s1 15"}));
  world.Exit("s1", 143);
  EXPECT_EQ(world.Run(), (Actions{"remove s1#1", "remove sandbox"}));
  EXPECT_EQ(world.last.status.phase(), "Succeeded") << "sidecars do not count";
}

TEST(LifecycleTest, ALostSandboxIsMadeAgainAndInitContainersRunAgain) {
  PodWorld world(
      R"(initContainers { name: "i" image: "x" } containers { name: "app" image: "x" })");
  world.Run();
  world.Exit("i", 0);
  world.Run();
  world.sandbox_ready = world.sandbox_exists = false;
  world.containers.clear();
  EXPECT_EQ(world.Run(), (Actions{"ensure sandbox", "start i#1"}));
  EXPECT_EQ(world.State("app"), "terminated ContainerStatusUnknown 137");
  world.Exit("i", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove i#1", "start app#1"}));
}

// The kernel kills what shares processes with an init that ends, one container after the other.
TEST(LifecycleTest, NothingStartsInADyingSandboxBeforeAllOfItHasEnded) {
  PodWorld world(
      R"(initContainers { name: "i" image: "x" } containers { name: "a" image: "x" }
         containers { name: "b" image: "x" })");
  world.Run();
  world.Exit("i", 0);
  world.Run();
  world.sandbox_ready = false;
  world.sandbox_dying = true;
  world.Exit("a", 137);
  EXPECT_EQ(world.Run(), Actions{"remove a#0"});
  world.Exit("b", 137);
  EXPECT_EQ(world.Run(), (Actions{"remove b#0", "ensure sandbox", "start i#1"}));
  world.sandbox_dying = false;
  world.Exit("i", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove i#1", "start a#1", "start b#1"}));
}

TEST(LifecycleTest, ActiveDeadlineFailsThePod) {
  PodWorld world(StrCat("activeDeadlineSeconds: 60 ", kOne));
  world.Run();
  ASSERT_TRUE(world.last.wake_at);
  EXPECT_EQ(*world.last.wake_at - world.boot, std::chrono::seconds(60));
  world.Pass(std::chrono::seconds(60));
  EXPECT_EQ(world.Run(), (Actions{"signal app 15"}));
  EXPECT_EQ(world.last.status.phase(), "Running") << "not terminal while something runs";
  world.Exit("app", 0);
  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "remove sandbox"}));
  EXPECT_EQ(world.last.status.phase(), "Failed");
  EXPECT_EQ(world.last.status.reason(), "DeadlineExceeded");
  EXPECT_EQ(world.last.status.message(),
            "Pod was active on the node longer than the specified deadline");
}

TEST(LifecycleTest, ARestartedAgentTouchesNothingThatIsRight) {
  PodWorld world(kOne);
  world.Run();
  world.Exit("app", 1);
  world.Run();
  const std::string before = world.last.status.SerializeAsString();
  world.RestartAgent();
  world.Pass(std::chrono::seconds(30));
  EXPECT_TRUE(world.Run().empty());
  EXPECT_EQ(world.last.status.SerializeAsString(), before);
}

TEST(LifecycleTest, AnAgentKilledAfterTheStartAdoptsTheContainer) {
  PodWorld world(kOne);
  world.Look();  // the launch is in memory, the outcome is not
  ContainerFact fact;
  fact.observed.id = ContainerId("adopted");
  fact.observed.name = "app";
  fact.observed.started_at = world.wall;
  world.containers.push_back(fact);
  world.sandbox_ready = world.sandbox_exists = true;
  EXPECT_TRUE(world.Run().empty());
  EXPECT_EQ(world.State("app"), "running");
  EXPECT_EQ(world.Status("app").imageid(), "sha256:1");
}

}  // namespace
}  // namespace holdfast::agent
