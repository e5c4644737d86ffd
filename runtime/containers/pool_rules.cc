// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/pool_rules.h"

#include "runtime/plan/sandbox.h"

namespace holdfast::runtime {
namespace {

using Action = PoolStep::Action;

}  // namespace

const model::SandboxPlan& MemberPlan() {
  // It has no sysctl that could be wrong.
  static const model::SandboxPlan plan =
      CompileSandbox(model::SandboxSpec{}).value_or(model::SandboxPlan{});
  return plan;
}

bool FitsMember(model::SandboxPlan plan) {
  plan.hostname.clear();
  return plan == MemberPlan();
}

PoolStep NextPoolStep(const PoolState& state, BootTime now) {
  if (state.ready > state.wanted) return {Action::kDrop, {}};
  const bool lacks = state.ready < state.wanted;
  if (!state.look && !lacks) return {};
  if (state.starts > 0) return {};  // its end is a change
  if (state.last_start && now < *state.last_start + kPoolQuiet) {
    return {Action::kWait, *state.last_start + kPoolQuiet - now};
  }
  if (state.look) return {Action::kLook, {}};
  if (state.failed && now < *state.failed + kPoolRetry) {
    return {Action::kWait, *state.failed + kPoolRetry - now};
  }
  return {Action::kMake, {}};
}

}  // namespace holdfast::runtime
