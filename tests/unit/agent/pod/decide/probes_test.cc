// SPDX-License-Identifier: Apache-2.0
// Probes as facts: what counts as started and ready, what is killed for a probe, what is probed.
#include <gtest/gtest.h>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;
using enum ProbeKind;
using enum ProbeResult;

constexpr char kHandler[] = R"(handler { tcpSocket { port { intVal: 80 } } })";

std::string Probe(const std::string& field, const std::string& more = "") {
  return StrCat(field, " { ", kHandler, " ", more, " } ");
}

std::string Web(const std::string& fields) {
  return StrCat(R"(containers { name: "web" image: "x" )", fields, " }");
}

std::string ReadyOf(const PodWorld& world, const std::string& name) {
  const auto& status = world.Status(name);
  return StrCat(status.started() ? "started" : "not started", status.ready() ? ", ready" : "");
}

TEST(ProbesTest, AContainerIsReadyWhenItsProbeSaysSo) {
  PodWorld world(Web(Probe("readinessProbe")));
  world.Run();
  EXPECT_EQ(world.Wanted(), (Actions{"readiness web"}));
  EXPECT_EQ(ReadyOf(world, "web"), "started");
  EXPECT_EQ(world.Condition("Ready"), "False(ContainersNotReady)");
  EXPECT_EQ(world.last.status.phase(), "Running");
  world.Probed("web", kReadiness, kSuccess);
  EXPECT_TRUE(world.Look().empty());
  EXPECT_EQ(ReadyOf(world, "web"), "started, ready");
  EXPECT_EQ(world.Condition("ContainersReady"), "True");
  EXPECT_EQ(world.Condition("Ready"), "True");
  world.Probed("web", kReadiness, kFailure);
  EXPECT_TRUE(world.Look().empty()) << "nothing is killed for it";
  EXPECT_EQ(world.Condition("ContainersReady"), "False(ContainersNotReady)");
}

TEST(ProbesTest, ARestartedAgentKeepsWhatWasFoundOut) {
  PodWorld world(Web(Probe("readinessProbe") + Probe("startupProbe") + Probe("livenessProbe")));
  world.Run();
  world.Probed("web", kStartup, kSuccess);
  world.Look();
  world.Probed("web", kReadiness, kSuccess);
  world.Look();
  world.RestartAgent();
  EXPECT_TRUE(world.Look().empty());
  EXPECT_EQ(ReadyOf(world, "web"), "started, ready");
  ASSERT_EQ(world.Wanted(), (Actions{"readiness web", "liveness web"}));
  EXPECT_EQ(world.last.probes[0].known, kSuccess) << "the prober goes on from there";
}

TEST(ProbesTest, StartupComesBeforeTheOthers) {
  PodWorld world(Web(Probe("readinessProbe") + Probe("startupProbe") + Probe("livenessProbe")));
  world.Run();
  EXPECT_EQ(world.Wanted(), (Actions{"startup web"}));
  EXPECT_EQ(ReadyOf(world, "web"), "not started");
  world.Probed("web", kStartup, kSuccess);
  world.Look();
  EXPECT_EQ(world.Wanted(), (Actions{"readiness web", "liveness web"}));
  EXPECT_EQ(ReadyOf(world, "web"), "started");
}

struct UnhealthyCase {
  const char* name;
  ProbeKind kind;
  const char* policy;
  const char* killing;
  const char* after;
};

class UnhealthyTest : public testing::TestWithParam<UnhealthyCase> {};

TEST_P(UnhealthyTest, IsKilledAndStartsAgainByItsPolicy) {
  const UnhealthyCase& c = GetParam();
  PodWorld world(StrCat("restartPolicy: \"", c.policy, "\" ",
                        Web(Probe(c.kind == kStartup ? "startupProbe" : "livenessProbe"))));
  world.Run();
  world.events.clear();
  world.Probed("web", c.kind, kFailure);
  EXPECT_EQ(world.Run(), (Actions{"signal web 15"}));
  EXPECT_EQ(world.events, (Actions{StrCat("Killing: ", c.killing)}));
  EXPECT_TRUE(world.Wanted().empty()) << "nothing is probed until there is a new container";
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(30));
  world.Exit("web", 0);
  world.probes.clear();
  world.Run();
  EXPECT_EQ(world.State("web"), c.after);
}

INSTANTIATE_TEST_SUITE_P(
    All, UnhealthyTest,
    testing::Values(
        UnhealthyCase{"LivenessAlways", kLiveness, "Always",
                      "Container web failed liveness probe, will be restarted", "running"},
        UnhealthyCase{"LivenessOnFailure", kLiveness, "OnFailure",
                      "Container web failed liveness probe, will be restarted", "running"},
        UnhealthyCase{"LivenessNever", kLiveness, "Never", "Container web failed liveness probe",
                      "terminated Completed 0"},
        UnhealthyCase{"StartupAlways", kStartup, "Always",
                      "Container web failed startup probe, will be restarted", "running"},
        UnhealthyCase{"StartupNever", kStartup, "Never", "Container web failed startup probe",
                      "terminated Completed 0"}),
    [](const auto& tested) { return tested.param.name; });

TEST(ProbesTest, AProbesOwnGracePeriodGoesBeforeThePods) {
  PodWorld world(Web(Probe("livenessProbe", "terminationGracePeriodSeconds: 5")));
  world.Run();
  world.Probed("web", kLiveness, kFailure);
  world.Run();
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(5));
  world.Pass(seconds(3));
  world.RestartAgent();
  EXPECT_TRUE(world.Run().empty()) << "no second signal";
  world.Pass(seconds(2));
  world.probes.clear();
  EXPECT_EQ(world.Look(), (Actions{"kill web"}));
}

TEST(ProbesTest, ARunThatTookThePlaceOfAnUnhealthyOneIsNotKilledForIt) {
  PodWorld world(Web(Probe("livenessProbe")));
  world.Run();
  world.Probed("web", kLiveness, kFailure);
  world.Run();
  world.Exit("web", 137, 9);
  EXPECT_EQ(world.Run(), (Actions{"remove web#0", "start web#1"}));
  EXPECT_TRUE(world.Look().empty()) << "the fact is of the run before";
  EXPECT_EQ(world.Wanted(), (Actions{"liveness web"}));
  EXPECT_EQ(world.Status("web").restartcount(), 1);
}

TEST(ProbesTest, ARepeatedKillBacksOff) {
  PodWorld world(Web(Probe("livenessProbe")));
  world.Run();
  for (int i = 0; i < 2; ++i) {
    world.Probed("web", kLiveness, kFailure);
    world.Run();
    world.Exit("web", 137, 9);
    world.Run();
  }
  EXPECT_EQ(world.State("web"), "waiting CrashLoopBackOff");
  world.Pass(seconds(10));
  world.Run();
  EXPECT_EQ(world.State("web"), "running");
}

TEST(ProbesTest, WhileThePodEndsOnlyReadinessIsAskedFor) {
  PodWorld world(Web(Probe("readinessProbe") + Probe("livenessProbe")));
  world.Run();
  world.Probed("web", kReadiness, kSuccess);
  world.deletion_grace = seconds(30);
  world.Run();
  EXPECT_EQ(world.Wanted(), (Actions{"readiness web"}));
  EXPECT_EQ(ReadyOf(world, "web"), "started, ready");
  world.Probed("web", kReadiness, kFailure);
  world.Run();
  EXPECT_EQ(world.Condition("Ready"), "False(ContainersNotReady)");
}

TEST(ProbesTest, ASidecarHoldsUpWhatFollowsUntilItsStartupProbePasses) {
  PodWorld world(StrCat(R"(initContainers { name: "side" image: "x" restartPolicy: "Always" )",
                        Probe("startupProbe"), Probe("readinessProbe"), "} ", Web("")));
  EXPECT_EQ(world.Run(), (Actions{"ensure volumes", "ensure sandbox", "start side#0"}));
  EXPECT_EQ(world.Condition("Initialized"), "False(ContainersNotInitialized)");
  world.Probed("side", kStartup, kSuccess);
  EXPECT_EQ(world.Run(), (Actions{"start web#0"}));
  EXPECT_EQ(world.Condition("Ready"), "False(ContainersNotReady)") << "a sidecar counts";
  world.Probed("side", kReadiness, kSuccess);
  world.Look();
  EXPECT_EQ(world.Condition("Ready"), "True");
  // Not again when it starts once more.
  world.Exit("side", 1);
  world.probes.clear();
  world.Run();
  EXPECT_EQ(ReadyOf(world, "side"), "not started");
  EXPECT_EQ(world.State("web"), "running");
}

TEST(ProbesTest, TheyDialThePodAndCountFromItsStart) {
  PodWorld world(Web(Probe("readinessProbe")));
  world.Run();
  ASSERT_EQ(world.last.probes.size(), 1u);
  EXPECT_EQ(world.last.probes[0].pod_ip, "10.88.0.2");
  EXPECT_EQ(world.last.probes[0].started_at, world.wall);
  PodWorld host("hostNetwork: true " + Web(Probe("readinessProbe")));
  host.Run();
  ASSERT_EQ(host.last.probes.size(), 1u);
  EXPECT_EQ(host.last.probes[0].pod_ip, "192.0.2.1");
}

}  // namespace
}  // namespace holdfast::agent
