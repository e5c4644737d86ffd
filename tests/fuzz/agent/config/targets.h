// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the agent's configuration.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzAgentConfig(std::string_view input);  // a file of kind AgentConfiguration

}  // namespace holdfast::fuzz
