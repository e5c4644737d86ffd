// SPDX-License-Identifier: Apache-2.0
// Whether the node may take pods: the parts of the agent that say so, and the Ready condition made of them. True at
// once, False only when it lasts. Pure. Source: control-plane.md 4.4, 9.3.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace holdfast::agent {

struct ReadyInput {
  std::string name;     // "runtime"
  std::string problem;  // "" is well
  bool known = true;    // false: `problem` stands for what nobody has told yet
};

struct ReadyState {
  bool ready = true;
  std::string message;  // what is wrong: one problem as it is, several as "[a, b]"
};

ReadyState JudgeReadiness(const std::vector<ReadyInput>& inputs);

// Whether each part has spoken once.
bool AllKnown(const std::vector<ReadyInput>& inputs);

// What is to be shown. `shown`: whether the Node is Ready as the API server has it, absent for one that is still to be
// made. `lasted`: what is wrong has been so for a while. Absent: leave the condition as it is, since an agent that has
// just begun knows no better.
std::optional<ReadyState> DecideReady(const std::vector<ReadyInput>& inputs,
                                      std::optional<bool> shown, bool lasted);

}  // namespace holdfast::agent
