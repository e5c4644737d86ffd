// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime_options.h"

#include <spdlog/spdlog.h>

#include <string>

#include "agent/node/node_limits.h"
#include "agent/node/node_reader.h"
#include "holdfast/sys/sysctl.h"

namespace holdfast::agent {

Result<runtime::RuntimeOptions> OptionsOfRuntime(const AgentConfig& config) {
  runtime::RuntimeOptions options;
  options.instance = config.instance;
  options.keeper_binary = config.programs.keeper;
  options.init_binary = config.programs.init;
  options.cgroup_naming = CgroupNamingOf(config);
  // As a kubelet: without enforcement the limits are the node's own.
  const NodeAmounts capacity = CapacityForPods(config.instance);
  ASSIGN_OR_RETURN(const NodeAmounts left, NodeAllocatable(config.node, capacity));
  const NodeAmounts& amounts = config.node.enforce_allocatable ? left : capacity;
  options.allocatable = {amounts.cpu_milli, amounts.memory_bytes, amounts.pids};
  if (config.node.pod_pids_limit > 0) options.pod_pids = config.node.pod_pids_limit;
  options.single_process_oom_kill = config.node.single_process_oom_kill;
  options.warn = [](const std::string& text) { spdlog::warn("{}", text); };
  return options;
}

void RaiseSharedCounts(const runtime::NodeAllocatable& pods) {
  for (const auto& [sysctl, what, least] :
       SharedCounts(pods.memory_bytes, NodeCapacity().memory_bytes)) {
    const auto raised = sys::RaiseSysctl(sysctl, static_cast<uint64_t>(least));
    if (!raised) {
      spdlog::warn(
          "{} should be at least {}, so that pods run out of memory before the node runs out of "
          "{}: {}, ignoring",
          sysctl, least, what, raised.error().message());
    } else if (*raised) {
      spdlog::info("{} raised to {}: pods run out of memory before the node runs out of {}", sysctl,
                   least, what);
    }
  }
}

}  // namespace holdfast::agent
