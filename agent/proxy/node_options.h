// SPDX-License-Identifier: Apache-2.0
// The agent's configuration as the service proxy wants it.
#pragma once

#include "agent/config/agent_config.h"
#include "agent/proxy/service_completion.h"
#include "holdfast/base/result.h"
#include "netproxy/table/service_rows.h"

namespace holdfast::agent {

struct ServiceNodeOptions {
  netproxy::TableOptions table;
  ServiceRanges ranges;
};

// Without pod_cidrs (in a cluster they come and change, and CNI plugins have their own) a pod of this node is known by
// its interface.
// `node_addresses`: as NodeAddresses() gives them, primary ones. kInvalidArgument names the field.
Result<ServiceNodeOptions> ServiceOptionsOf(const model::Instance& instance,
                                            const ProxyConfig& config,
                                            const std::vector<std::string>& node_addresses);
// The same with the node's addresses as they are now.
Result<ServiceNodeOptions> ReadServiceOptions(const model::Instance& instance,
                                              const ProxyConfig& config);

}  // namespace holdfast::agent
