// SPDX-License-Identifier: Apache-2.0
// What node, pods and containers use: rates out of two of the agent's readings, and the tables that
// kubectl top shows of them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/kube/quantity.h"
#include "holdfast/v1/node_agent.pb.h"

namespace holdfast::agent::cli {

struct Usage {
  uint64_t cpu_nanos = 0;  // for each second
  uint64_t memory_bytes = 0;
  uint64_t swap_bytes = 0;
  bool operator==(const Usage&) const = default;
};

struct ContainerUsage {
  std::string name;
  Usage usage;
};

struct PodUsage {
  std::string name_space;
  std::string name;
  std::vector<ContainerUsage> containers;
  Usage Sum() const;
};

// Of the pods of `now` that run containers. One that `before` does not have counts from its start.
std::vector<PodUsage> UsageOfPods(const v1::GetStatsResponse& before,
                                  const v1::GetStatsResponse& now);
Usage UsageOfNode(const v1::GetStatsResponse& before, const v1::GetStatsResponse& now);

enum class UsageOrder : uint8_t { kName, kCpu, kMemory };

struct UsageStyle {
  UsageOrder order = UsageOrder::kName;
  bool with_namespace = false;
  bool containers = false;  // a row for each
  bool sum = false;
  bool swap = false;
  bool with_header = true;
};

// "" for no pods.
std::string UsageTable(std::vector<PodUsage> pods, const UsageStyle& style);

struct NodeLimits {
  kube::Amount cpu, memory;
  std::optional<uint64_t> swap_bytes;  // nothing: the machine has none
};
// Of the style: swap and with_header.
std::string NodeUsageTable(const std::string& node, const Usage& usage, const NodeLimits& limits,
                           const UsageStyle& style);

}  // namespace holdfast::agent::cli
