// SPDX-License-Identifier: Apache-2.0
// What the pool of sandboxes holds, and what is to be done about it next. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "holdfast/base/clock.h"
#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

// A burst of pods has the machine for itself: nothing is made until no start was under way for so
// long.
inline constexpr std::chrono::milliseconds kPoolQuiet{50};
// After a member could not be made.
inline constexpr std::chrono::seconds kPoolRetry{30};

// The plan of a member: that of most pods, without what is one pod's own.
const model::SandboxPlan& MemberPlan();
// Whether a member, given the plan's host name, is what the plan asks for.
bool FitsMember(model::SandboxPlan plan);

struct PoolState {
  size_t wanted = 0;
  size_t ready = 0;
  size_t starts = 0;                   // under way
  std::optional<BootTime> last_start;  // when one ended
  std::optional<BootTime> failed;      // when a member could not be made, until one could
  bool look = true;                    // the keeper may have others than we know, or fewer
};

struct PoolStep {
  enum class Action : uint8_t { kWait, kLook, kDrop, kMake };
  Action action = Action::kWait;
  // kWait: for how long at most; absent: until the state changes.
  std::optional<std::chrono::nanoseconds> wait;
  bool operator==(const PoolStep&) const = default;
};

// One member too many goes at once; all else waits for starts.
PoolStep NextPoolStep(const PoolState& state, BootTime now);

}  // namespace holdfast::runtime
