// SPDX-License-Identifier: Apache-2.0
// /configz: the settings in force, as JSON: the agent's own as a configuration file would have
// them, and what of them a reader of kube-proxy's /configz knows. Pure; thread-safe.
#pragma once

#include <string>

#include "agent/config/agent_config.h"

namespace holdfast::agent {

// {"holdfast.dev": {AgentConfiguration}, "kubeproxy.config.k8s.io": {KubeProxyConfiguration}}.
// `mode` is the proxy mode in force, which SIGHUP may have changed since `config` was read.
std::string ConfigzText(AgentConfig config, const std::string& mode);

}  // namespace holdfast::agent
