// SPDX-License-Identifier: Apache-2.0
// What holdfastd takes away from a node that it leaves. kConflict: an agent runs, or a pod is left.
#pragma once

#include "agent/config/agent_config.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// --cleanup: what the agent made on the node and that belongs to no pod.
Result<void> CleanUp(const AgentConfig& config);

// --cleanup-kube-proxy: the rules that a kube-proxy left; a line on stdout for each table or chain. Not while an agent
// runs: its chains may bear the same names.
Result<void> CleanUpKubeProxy(const AgentConfig& config);

}  // namespace holdfast::agent
