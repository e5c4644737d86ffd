// SPDX-License-Identifier: Apache-2.0
// What the container runtime is told of the configuration and of the machine.
#pragma once

#include "agent/config/agent_config.h"
#include "holdfast/base/result.h"
#include "runtime/containers/options.h"

namespace holdfast::agent {

// Fails when more is reserved than the node has.
Result<runtime::RuntimeOptions> OptionsOfRuntime(const AgentConfig& config);

}  // namespace holdfast::agent
