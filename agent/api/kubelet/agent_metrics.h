// SPDX-License-Identifier: Apache-2.0
// /metrics: the agent itself, by a kubelet's names. Pure but for the process's own files.
// Source: feature-map 1.16.4.
#pragma once

#include <string>
#include <vector>

#include "agent/base/metrics_text.h"
#include "agent/view/pod_view.h"

namespace holdfast::agent::api {

struct AgentFacts {
  std::string node_name, version;
  int cgroup_version = 2;
  // Images that were removed because nothing had needed them for long, and to make room.
  uint64_t images_by_age = 0, images_by_space = 0;
};
void AddAgentMetrics(const std::vector<PodPtr>& pods, const AgentFacts& facts, MetricsText& text);

}  // namespace holdfast::agent::api
