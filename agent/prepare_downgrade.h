// SPDX-License-Identifier: Apache-2.0
// --prepare-downgrade: what the agent knows of its pods and their addresses, as releases without
// pods.journal keep it, so that one of them finds the pods that run. An agent of this release takes
// the files back at its next start. kConflict: an agent runs.
#pragma once

#include "agent/config/agent_config.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

Result<void> PrepareDowngrade(const AgentConfig& config);

}  // namespace holdfast::agent
