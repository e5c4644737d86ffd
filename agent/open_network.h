// SPDX-License-Identifier: Apache-2.0
// The pods' network that the configuration names, opened; and nothing of the other one left beside it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/cni/cni_network.h"
#include "agent/config/agent_config.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/pod_network.h"
#include "netproxy/podnet/pod_net.h"

namespace holdfast::agent {

// One of the two.
struct OpenedNetwork {
  std::unique_ptr<netproxy::PodNet> built_in;
  std::unique_ptr<CniNetwork> cni;
  PodNetwork& operator*() const {
    if (cni) return *cni;
    return *built_in;
  }
};

struct OpenNetworkParts {
  const AgentConfig& config;
  std::function<bool()> prefers_v6;  // the node does
  std::function<void(const std::string& line)> log;
};

// kConflict while pods are there that the other kind of network attached: only that knows how to detach them.
Result<OpenedNetwork> OpenPodNetwork(const OpenNetworkParts& parts);

}  // namespace holdfast::agent
