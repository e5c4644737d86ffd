// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_readiness.h"

#include <algorithm>

#include "holdfast/base/strings.h"

namespace holdfast::agent {

ReadyState JudgeReadiness(const std::vector<ReadyInput>& inputs) {
  ReadyState state;
  int problems = 0;
  for (const ReadyInput& input : inputs) {
    if (input.problem.empty()) continue;
    state.message += StrCat(problems++ == 0 ? "" : ", ", input.problem);
  }
  state.ready = problems == 0;
  if (problems > 1) state.message = StrCat("[", state.message, "]");
  return state;
}

bool AllKnown(const std::vector<ReadyInput>& inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.known; });
}

std::optional<ReadyState> DecideReady(const std::vector<ReadyInput>& inputs,
                                      std::optional<bool> shown, bool lasted) {
  ReadyState state = JudgeReadiness(inputs);
  if (state.ready || !shown) return state;
  if (!AllKnown(inputs)) return std::nullopt;
  if (*shown && !lasted) return std::nullopt;
  return state;
}

}  // namespace holdfast::agent
