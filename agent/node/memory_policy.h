// SPDX-License-Identifier: Apache-2.0
// What of the settings on memory and swap takes effect on this machine. Thread-safe: no state.
// Source: feature-map 2.4.10, 2.4.13; kubelet 1.36.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/config/agent_config.h"
#include "agent/events/event_sink.h"
#include "agent/pod/spec/node_environment.h"
#include "holdfast/base/result.h"
#include "runtime/cgroup/layout.h"

namespace holdfast::agent {

// Pure. Nothing of it without cgroup v2.
MemoryPolicy MemoryPolicyOf(const NodeConfig& node, bool unified_cgroups);

// Settings that have no effect on this machine, a line for each. Pure.
std::vector<std::string> WithoutEffect(const NodeConfig& node, bool unified_cgroups);

// Whether memory is limited by cgroup v2. False also where that cannot be seen. Pure.
bool HasUnifiedCgroups(const Result<runtime::CgroupLayout>& cgroups);

// `swaps`: /proc/swaps, a heading and a line for each. Pure.
bool ListsSwap(std::string_view swaps);

// Refuses a node with swap for failSwapOn; otherwise has the Node's events say where volumes of memory may be swapped
// out (`noswap`: the kernel can keep a tmpfs from it).
Result<void> CheckSwap(const NodeConfig& node, const std::string& node_name, std::string_view swaps,
                       bool noswap, EventSink& events);

}  // namespace holdfast::agent
