// SPDX-License-Identifier: Apache-2.0
// What the container runtime is told of the configuration and of the machine.
#pragma once

#include "agent/config/agent_config.h"
#include "holdfast/base/result.h"
#include "runtime/containers/options.h"

namespace holdfast::agent {

// Fails when more is reserved than the node has.
Result<runtime::RuntimeOptions> OptionsOfRuntime(const AgentConfig& config);

// Lets the node have as many open files as `pods` may have memory for (NodeFiles). Logs what it
// did, or why it could not and what follows from that.
void RaiseFileMax(const runtime::NodeAllocatable& pods);

}  // namespace holdfast::agent
