// SPDX-License-Identifier: Apache-2.0
// What the container runtime is told of the configuration and of the machine.
#pragma once

#include "agent/config/agent_config.h"
#include "holdfast/base/result.h"
#include "runtime/containers/options.h"

namespace holdfast::agent {

// Fails when more is reserved than the node has.
Result<runtime::RuntimeOptions> OptionsOfRuntime(const AgentConfig& config);

// Lets the node have as many of SharedCounts as `pods` may have memory for. Logs what it did, or why
// it could not and what follows from that.
void RaiseSharedCounts(const runtime::NodeAllocatable& pods);

}  // namespace holdfast::agent
