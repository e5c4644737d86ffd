// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/config/targets.h"

#include <string>

#include "agent/config/agent_config.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

void FuzzAgentConfig(std::string_view input) {
  agent::AgentConfig config;
  const auto read = agent::ReadConfigText(std::string(input), "agent.yaml", config);
  if (!read) {
    Require(read.error().message().starts_with("agent.yaml:"), "an error names its file", input);
    return;
  }
  const std::string shown = agent::ConfigJson(config);
  agent::AgentConfig again;
  Require(agent::ReadConfigText(shown, "shown", again).has_value(), "what is shown is read", input);
  Require(agent::ConfigJson(again) == shown, "and means the same", input);
}

}  // namespace holdfast::fuzz
