// SPDX-License-Identifier: Apache-2.0
// In-place resize: which containers are given what, which start again, and what is told, in a kubelet's words.
#include <gtest/gtest.h>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

using How = ResizeVerdict::How;

constexpr char kSized[] = R"(containers { name: "app" image: "x" resources {
  requests { key: "cpu" value { string: "100m" } } limits { key: "memory" value { string: "64Mi" } } } })";

std::string Quantity(const std::string& text) { return StrCat("value { string: \"", text, "\" }"); }

// Everything runs, and nothing is left to do.
PodWorld Settled(const std::string& spec) {
  PodWorld world(spec);
  world.memory.origin = PodOrigin::kApi;
  world.pod.mutable_metadata()->set_generation(1);
  world.memory.allocation = AllocationOf(world.pod);
  world.Run();
  world.Look();
  world.events.clear();
  return world;
}

void SetRequest(corev1::Container* c, const std::string& name, const std::string& text) {
  (*c->mutable_resources()->mutable_requests())[name].set_string(text);
}
void SetLimit(corev1::Container* c, const std::string& name, const std::string& text) {
  (*c->mutable_resources()->mutable_limits())[name].set_string(text);
}

// The API server has another generation of it.
corev1::Pod Wish(const PodWorld& world) {
  corev1::Pod wish = world.pod;
  wish.mutable_metadata()->set_generation(wish.metadata().generation() + 1);
  return wish;
}

void Give(PodWorld& world, const corev1::Pod& wish) {
  world.pod = wish;
  world.asked.reset();
  world.verdict = ResizeVerdict{};
}

const corev1::PodCondition* Find(const PodWorld& world, const std::string& type) {
  for (const auto& c : world.last.status.conditions()) {
    if (c.type() == type) return &c;
  }
  return nullptr;
}

std::string Requests(const PodWorld& world, const std::string& resource) {
  return world.Status("app").resources().requests().at(resource).string();
}

TEST(ResizeTest, WhatIsGivenIsWrittenAndTold) {
  PodWorld world = Settled(kSized);
  EXPECT_EQ(Requests(world, "cpu"), "100m");
  corev1::Pod wish = Wish(world);
  SetRequest(wish.mutable_spec()->mutable_containers(0), "cpu", "250m");
  Give(world, wish);
  EXPECT_EQ(world.Look(), Actions{"resize #1"});
  EXPECT_EQ(world.Condition("PodResizeInProgress"), "True");
  EXPECT_EQ(Find(world, "PodResizeInProgress")->observedgeneration(), 2);
  EXPECT_TRUE(Find(world, "PodResizeInProgress")->has_lastprobetime());
  EXPECT_EQ(
      world.events,
      Actions{R"(ResizeStarted: Pod resize started: {"containers":[{"name":"app","resources":)"
              R"({"limits":{"memory":"64Mi"},"requests":{"cpu":"250m"}}}],"generation":2})"});
  EXPECT_EQ(world.Status("app").allocatedresources().at("cpu").string(), "250m");
  EXPECT_EQ(Requests(world, "cpu"), "100m") << "what its cgroup has";
  EXPECT_EQ(world.last.status.allocatedresources().at("cpu").string(), "250m");
  EXPECT_EQ(world.last.status.resources().requests().at("cpu").string(), "100m");
  world.events.clear();
  world.CarryOut(world.last.actions[0]);
  EXPECT_EQ(world.Look(), Actions{});
  EXPECT_EQ(world.Condition("PodResizeInProgress"), "absent");
  EXPECT_EQ(Requests(world, "cpu"), "250m");
  EXPECT_EQ(world.last.status.resources().requests().at("cpu").string(), "250m");
  ASSERT_EQ(world.events.size(), 1u);
  EXPECT_TRUE(
      world.events[0].starts_with("ResizeCompleted: Pod resize completed: {\"containers\""));
  EXPECT_EQ(world.memory.containers["app"].attempts, 1u) << "it went on";
}

TEST(ResizeTest, ARestartedAgentGoesOnWithIt) {
  PodWorld world = Settled(kSized);
  corev1::Pod wish = Wish(world);
  SetRequest(wish.mutable_spec()->mutable_containers(0), "cpu", "250m");
  Give(world, wish);
  world.Look();
  world.RestartAgent();
  EXPECT_EQ(world.Look(), Actions{"resize #1"}) << "asked of nobody again";
  EXPECT_EQ(world.memory.allocations, 1u);
  world.CarryOut(world.last.actions[0]);
  EXPECT_EQ(world.Look(), Actions{});
}

TEST(ResizeTest, WhatAnOlderAgentStartedIsResizedToo) {
  PodWorld world = Settled(kSized);
  world.memory.containers["app"].launch->amounts.reset();
  EXPECT_EQ(world.Look(), Actions{});
  corev1::Pod wish = Wish(world);
  SetRequest(wish.mutable_spec()->mutable_containers(0), "cpu", "250m");
  Give(world, wish);
  EXPECT_EQ(world.Look(), Actions{"resize #1"});
  EXPECT_EQ(Requests(world, "cpu"), "100m");
}

TEST(ResizeTest, OneThatWaitsOrCannotBeIsToldOnce) {
  PodWorld world = Settled(kSized);
  world.asked = Wish(world);
  SetRequest(world.asked->mutable_spec()->mutable_containers(0), "cpu", "64");
  world.verdict = ResizeVerdict{How::kDeferred, "no room"};
  EXPECT_EQ(world.Look(), Actions{});
  EXPECT_EQ(world.Condition("PodResizePending"), "True(Deferred)");
  EXPECT_EQ(Find(world, "PodResizePending")->message(), "no room");
  EXPECT_EQ(Find(world, "PodResizePending")->observedgeneration(), 2);
  EXPECT_EQ(world.Condition("PodResizeInProgress"), "absent");
  EXPECT_EQ(Requests(world, "cpu"), "100m");
  EXPECT_EQ(
      world.events,
      Actions{R"(ResizeDeferred: Pod resize Deferred: {"containers":[{"name":"app","resources":)"
              R"({"limits":{"memory":"64Mi"},"requests":{"cpu":"64"}}}],"generation":2,)"
              R"("error":"no room"})"});
  world.events.clear();
  const WallTime since = world.memory.resize_pending->since;
  world.Pass(std::chrono::seconds(60));
  world.verdict = ResizeVerdict{How::kDeferred, "less room"};
  world.Look();
  EXPECT_EQ(world.events, Actions{}) << "the same wish for the same reason";
  EXPECT_EQ(Find(world, "PodResizePending")->message(), "less room");
  EXPECT_EQ(world.memory.resize_pending->since, since);
  world.verdict = ResizeVerdict{How::kInfeasible, "never"};
  world.Look();
  EXPECT_EQ(world.Condition("PodResizePending"), "True(Infeasible)");
  ASSERT_EQ(world.events.size(), 1u);
  EXPECT_TRUE(world.events[0].starts_with("ResizeInfeasible: Pod resize Infeasible: "));
  world.Look();
  EXPECT_EQ(world.Condition("PodResizePending"), "True(Infeasible)") << "shown, not asked";
  world.asked.reset();  // taken back
  world.Look();
  EXPECT_EQ(world.Condition("PodResizePending"), "absent");
}

TEST(ResizeTest, AFailureIsToldAndTriedAgain) {
  PodWorld world = Settled(kSized);
  corev1::Pod wish = Wish(world);
  SetLimit(wish.mutable_spec()->mutable_containers(0), "memory", "1Mi");
  Give(world, wish);
  world.Look();
  world.events.clear();
  world.resize_error = "cannot decrease memory limits: x";
  world.CarryOut(world.last.actions[0]);
  EXPECT_EQ(world.Look(), Actions{"resize #1"});
  EXPECT_TRUE(world.last.begin.empty()) << "not at once";
  EXPECT_EQ(world.Condition("PodResizeInProgress"), "True(Error)");
  EXPECT_EQ(Find(world, "PodResizeInProgress")->message(), "cannot decrease memory limits: x");
  ASSERT_EQ(world.events.size(), 1u);
  EXPECT_TRUE(world.events[0].starts_with("ResizeError: Pod resize error: {"));
  EXPECT_TRUE(
      world.events[0].ends_with(R"("generation":2,"error":"cannot decrease memory limits: x"})"));
  world.Pass(std::chrono::seconds(10));
  world.Look();
  EXPECT_EQ(world.last.begin.size(), 1u);
  world.CarryOut(world.last.begin[0]);
  world.Look();
  EXPECT_EQ(world.events.size(), 1u) << "nothing new";
  world.Exit("app", 1);
  EXPECT_EQ(world.Look(), (Actions{"remove app#0", "start app#1", "resize #1"}))
      << "no start waits for it";
}

TEST(ResizeTest, AStartIsNotHeldUpByOneThatFails) {
  PodWorld world = Settled(StrCat(kSized, R"( containers { name: "other" image: "x" })"));
  corev1::Pod wish = Wish(world);
  SetLimit(wish.mutable_spec()->mutable_containers(0), "memory", "1Mi");
  Give(world, wish);
  world.Look();
  world.resize_error = "cannot";
  world.CarryOut(world.last.actions[0]);
  world.Exit("other", 1);
  world.Look();
  const auto starts = [&] {
    return std::ranges::any_of(
        world.last.begin, [](const Action& action) { return action.kind == Action::Kind::kStart; });
  };
  EXPECT_TRUE(starts());
}

TEST(ResizeTest, AStartWaitsForTheRoomThatItsPodIsGiven) {
  PodWorld world = Settled(StrCat(kSized, R"( containers { name: "other" image: "x" resources {
      requests { key: "cpu" )",
                                  Quantity("10m"), "} } }"));
  world.Exit("other", 1);
  corev1::Pod wish = Wish(world);
  SetRequest(wish.mutable_spec()->mutable_containers(1), "cpu", "1");
  Give(world, wish);
  EXPECT_EQ(world.Look(), (Actions{"remove other#0", "resize #1", "start other#1"}));
  ASSERT_EQ(world.last.begin.size(), 2u) << "removal and resize";
  world.Run();
  EXPECT_EQ(world.memory.containers["other"].launch->amounts->requests.at("cpu"), "1");
  EXPECT_EQ(world.Condition("PodResizeInProgress"), "absent");
}

struct RestartCase {
  const char* policy;  // of cpu, of memory
  const char* memory_policy;
  bool cpu, memory;  // what changes
  bool restarts;
};

TEST(ResizeTest, RestartsWhatItsPolicySays) {
  const RestartCase cases[] = {
      {"NotRequired", "NotRequired", true, true, false},
      {"RestartContainer", "NotRequired", true, false, true},
      {"RestartContainer", "NotRequired", false, true, false},
      {"NotRequired", "RestartContainer", false, true, true},
      {"NotRequired", "RestartContainer", true, true, true},
  };
  for (const RestartCase& one : cases) {
    SCOPED_TRACE(StrCat(one.policy, " ", one.memory_policy, " ", one.cpu, one.memory));
    PodWorld world = Settled(StrCat(
        R"(containers { name: "app" image: "x" resizePolicy { resourceName: "cpu" restartPolicy: ")",
        one.policy, R"(" } resizePolicy { resourceName: "memory" restartPolicy: ")",
        one.memory_policy, R"(" } resources { requests { key: "cpu" )", Quantity("100m"),
        R"(} requests { key: "memory" )", Quantity("64Mi"), "} } }"));
    corev1::Pod wish = Wish(world);
    if (one.cpu) SetRequest(wish.mutable_spec()->mutable_containers(0), "cpu", "200m");
    if (one.memory) SetRequest(wish.mutable_spec()->mutable_containers(0), "memory", "128Mi");
    Give(world, wish);
    EXPECT_EQ(world.Look(), Actions{one.restarts ? "signal app 15" : "resize #1"});
    if (!one.restarts) continue;
    EXPECT_NE(std::ranges::find(world.events, "Killing: Container app resize requires restart"),
              world.events.end());
    EXPECT_EQ(world.Condition("PodResizeInProgress"), "True");
    world.CarryOut(world.last.actions[0]);
    world.Exit("app", 0);
    EXPECT_EQ(world.Look(), (Actions{"remove app#0", "resize #1", "start app#1"}));
    world.Run();
    EXPECT_EQ(world.State("app"), "running");
    EXPECT_EQ(world.Condition("PodResizeInProgress"), "absent");
    EXPECT_EQ(world.Status("app").restartcount(), 1);
  }
}

TEST(ResizeTest, ASidecarIsResizedAndSoIsAnInitContainerThatRuns) {
  PodWorld world = Settled(StrCat(
      R"(initContainers { name: "side" image: "x" restartPolicy: "Always" resources { requests { key: "cpu" )",
      Quantity("10m"), "} } } ", kSized));
  corev1::Pod wish = Wish(world);
  SetRequest(wish.mutable_spec()->mutable_initcontainers(0), "cpu", "20m");
  Give(world, wish);
  EXPECT_EQ(world.Look(), Actions{"resize #1"});
  world.Run();
  EXPECT_EQ(world.Status("side").resources().requests().at("cpu").string(), "20m");
}

TEST(ResizeTest, AContainerWithoutALimitFollowsThePods) {
  PodWorld world = Settled(StrCat(R"(resources { limits { key: "cpu" )", Quantity("1"),
                                  R"( } requests { key: "cpu" )", Quantity("100m"),
                                  R"( } } containers { name: "app" image: "x" })"));
  EXPECT_EQ(world.memory.containers["app"].launch->amounts->limits.at("cpu"), "1");
  corev1::Pod wish = Wish(world);
  (*wish.mutable_spec()->mutable_resources()->mutable_limits())["cpu"].set_string("2");
  Give(world, wish);
  EXPECT_EQ(world.Look(), Actions{"resize #1"});
  EXPECT_EQ(world.last.status.resources().limits().at("cpu").string(), "1");
  world.Run();
  EXPECT_EQ(world.last.status.resources().limits().at("cpu").string(), "2");
  EXPECT_EQ(world.memory.containers["app"].launch->amounts->limits.at("cpu"), "2");
}

TEST(ResizeTest, APodThatEndedWaitsForNothing) {
  PodWorld world = Settled(R"(restartPolicy: "Never" containers { name: "app" image: "x" })");
  world.asked = Wish(world);
  SetRequest(world.asked->mutable_spec()->mutable_containers(0), "cpu", "64");
  world.verdict = ResizeVerdict{How::kDeferred, "no room"};
  world.Look();
  world.Exit("app", 0);
  world.Run();
  EXPECT_EQ(world.last.status.phase(), "Succeeded");
  world.Look();
  EXPECT_EQ(world.Condition("PodResizePending"), "absent");
}

}  // namespace
}  // namespace holdfast::agent
