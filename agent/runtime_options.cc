// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime_options.h"

#include <spdlog/spdlog.h>

#include <string>

#include "agent/node/node_reader.h"

namespace holdfast::agent {

Result<runtime::RuntimeOptions> OptionsOfRuntime(const AgentConfig& config) {
  runtime::RuntimeOptions options;
  options.instance = config.instance;
  options.keeper_binary = config.keeper_binary;
  options.init_binary = config.init_binary;
  options.cgroup_naming = config.cgroup_driver == "systemd" ? runtime::CgroupNaming::kSystemd
                                                            : runtime::CgroupNaming::kCgroupfs;
  // As a kubelet: without enforcement the limits are the node's own.
  const NodeAmounts capacity = NodeCapacity();
  ASSIGN_OR_RETURN(const NodeAmounts left, NodeAllocatable(config, capacity));
  const NodeAmounts& amounts = config.enforce_node_allocatable ? left : capacity;
  options.allocatable = {amounts.cpu_milli, amounts.memory_bytes, amounts.pids};
  options.warn = [](const std::string& text) { spdlog::warn("{}", text); };
  return options;
}

}  // namespace holdfast::agent
