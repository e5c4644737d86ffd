// SPDX-License-Identifier: Apache-2.0
// /configz: the configuration as a kubelet's, beside our own. Pure.
#pragma once

#include <string>

#include "agent/config/agent_config.h"

namespace holdfast::agent::api {

// {"kubeletconfig": KubeletConfiguration, "holdfast.dev": AgentConfiguration}; what a kubelet has and this agent does
// not is left out.
std::string ConfigzJson(const AgentConfig& config);

}  // namespace holdfast::agent::api
