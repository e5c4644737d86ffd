// SPDX-License-Identifier: Apache-2.0
#include "agent/node/memory_policy.h"

#include <algorithm>

#include "holdfast/base/strings.h"

namespace holdfast::agent {

MemoryPolicy MemoryPolicyOf(const NodeConfig& node, bool unified_cgroups) {
  MemoryPolicy policy;
  policy.limited_swap = unified_cgroups && node.swap_behavior == "LimitedSwap";
  policy.qos = unified_cgroups && node.memory_qos;
  policy.reserves = policy.qos && node.memory_reservation == "TieredReservation";
  policy.throttling_factor = node.memory_throttling_factor;
  return policy;
}

std::vector<std::string> WithoutEffect(const NodeConfig& node, bool unified_cgroups) {
  std::vector<std::string> lines;
  if (unified_cgroups) return lines;
  constexpr char kWhy[] = " has no effect: memory is limited by cgroup v1 here";
  if (node.swap_behavior == "LimitedSwap")
    lines.push_back(StrCat("swapBehavior LimitedSwap", kWhy));
  if (node.memory_qos) lines.push_back(StrCat("memoryQos", kWhy));
  return lines;
}

bool HasUnifiedCgroups(const Result<runtime::CgroupLayout>& cgroups) {
  return cgroups && cgroups->version == runtime::CgroupVersion::kV2;
}

bool ListsSwap(std::string_view swaps) {
  const size_t end = swaps.find_last_not_of('\n');
  return end != std::string_view::npos && swaps.substr(0, end).find('\n') != std::string_view::npos;
}

Result<void> CheckSwap(const NodeConfig& node, const std::string& node_name, std::string_view swaps,
                       bool noswap, EventSink& events) {
  if (!ListsSwap(swaps)) return {};
  if (node.fail_swap_on) {
    return Conflict(
        "running with swap on is not supported, please disable swap or set failSwapOn to false");
  }
  if (noswap) return {};
  events.AddEvent(
      NodeSubject(node_name),
      {true, "PossibleMemoryBackedVolumesOnDisk",
       "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, "
       "etc.) might be swapped to disk and should no longer be considered secure.",
       "", false});
  return {};
}

}  // namespace holdfast::agent
