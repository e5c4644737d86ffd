// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/pool_rules.h"

#include <gtest/gtest.h>

#include "runtime/plan/sandbox.h"

namespace holdfast::runtime {
namespace {

using Action = PoolStep::Action;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr BootTime kNow{std::chrono::hours(1)};

PoolState Settled(size_t wanted, size_t ready) {
  PoolState state;
  state.wanted = wanted;
  state.ready = ready;
  state.look = false;
  return state;
}

model::SandboxPlan PlanOf(const model::SandboxSpec& spec) {
  auto plan = CompileSandbox(spec);
  EXPECT_TRUE(plan);
  return *plan;
}

TEST(PoolRulesTest, AFullPoolRests) {
  EXPECT_EQ(NextPoolStep(Settled(4, 4), kNow), PoolStep());
  EXPECT_EQ(NextPoolStep(Settled(0, 0), kNow), PoolStep());
}

TEST(PoolRulesTest, WhatIsMissingIsMade) {
  EXPECT_EQ(NextPoolStep(Settled(4, 3), kNow).action, Action::kMake);
}

TEST(PoolRulesTest, OneTooManyGoesAtOnce) {
  PoolState state = Settled(0, 1);
  state.starts = 3;
  state.last_start = kNow;
  EXPECT_EQ(NextPoolStep(state, kNow).action, Action::kDrop);
}

TEST(PoolRulesTest, WhileAStartIsUnderWayNothingIsDone) {
  PoolState state = Settled(4, 0);
  state.look = true;
  state.starts = 1;
  EXPECT_EQ(NextPoolStep(state, kNow), PoolStep()) << "until it ends";
}

TEST(PoolRulesTest, AfterAStartItStaysQuietForAWhile) {
  PoolState state = Settled(4, 0);
  state.last_start = kNow;
  EXPECT_EQ(NextPoolStep(state, kNow + milliseconds(20)),
            (PoolStep{Action::kWait, kPoolQuiet - milliseconds(20)}));
  EXPECT_EQ(NextPoolStep(state, kNow + kPoolQuiet).action, Action::kMake);
}

TEST(PoolRulesTest, WhatLiesThereIsLookedAtBeforeAnythingIsMade) {
  PoolState state = Settled(4, 0);
  state.look = true;
  EXPECT_EQ(NextPoolStep(state, kNow).action, Action::kLook);
  state.wanted = 0;
  EXPECT_EQ(NextPoolStep(state, kNow).action, Action::kLook) << "also where none is wanted";
}

TEST(PoolRulesTest, AFailureIsTriedAgainLater) {
  PoolState state = Settled(4, 0);
  state.failed = kNow;
  EXPECT_EQ(NextPoolStep(state, kNow + seconds(10)),
            (PoolStep{Action::kWait, kPoolRetry - seconds(10)}));
  EXPECT_EQ(NextPoolStep(state, kNow + kPoolRetry).action, Action::kMake);
  state.look = true;
  EXPECT_EQ(NextPoolStep(state, kNow).action, Action::kLook);
}

TEST(PoolRulesTest, AMemberFitsMostPods) {
  EXPECT_TRUE(MemberPlan().network && MemberPlan().ipc && MemberPlan().uts);
  EXPECT_TRUE(MemberPlan().hostname.empty());
  model::SandboxSpec spec;
  spec.uid = PodUid("u");
  spec.hostname = "web-0";
  spec.resources.memory_limit_bytes = 1 << 20;
  EXPECT_TRUE(FitsMember(PlanOf(spec)));
}

TEST(PoolRulesTest, APodThatAsksForSomethingElseGetsItsOwn) {
  const auto fits_with = [](const auto& change) {
    model::SandboxSpec spec;
    change(spec);
    return FitsMember(PlanOf(spec));
  };
  EXPECT_FALSE(fits_with([](auto& spec) { spec.host_network = true; }));
  EXPECT_FALSE(fits_with([](auto& spec) { spec.host_ipc = true; }));
  EXPECT_FALSE(fits_with([](auto& spec) { spec.host_users = false; }));
  EXPECT_FALSE(fits_with([](auto& spec) { spec.shm_size_bytes = 1 << 20; }));
  EXPECT_FALSE(fits_with([](auto& spec) { spec.sysctls = {{"net.core.somaxconn", "7"}}; }));
  model::SandboxPlan with_init = MemberPlan();
  with_init.init_binary = 0;
  EXPECT_FALSE(FitsMember(with_init));
  model::SandboxPlan with_users = MemberPlan();
  with_users.uid_map = with_users.gid_map = {{0, 1 << 20, 65536}};
  EXPECT_FALSE(FitsMember(with_users));
}

}  // namespace
}  // namespace holdfast::runtime
