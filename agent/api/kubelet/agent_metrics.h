// SPDX-License-Identifier: Apache-2.0
// /metrics: the agent itself, by a kubelet's names. Pure but for the process's own files.
// Source: feature-map 1.16.4.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/view/pod_view.h"

namespace holdfast::agent::api {

// Requests so far, by method and path.
using RequestCounts = std::map<std::pair<std::string, std::string>, uint64_t>;
// What a request counts as: its first part, "others" for one that nobody serves.
std::string CountedPath(std::string_view path);

struct AgentFacts {
  std::string node_name, version;
  int cgroup_version = 2;
  // Images that were removed because nothing had needed them for long, and to make room.
  uint64_t images_by_age = 0, images_by_space = 0;
};
std::string AgentMetrics(const std::vector<PodPtr>& pods, const RequestCounts& requests,
                         const AgentFacts& facts);

}  // namespace holdfast::agent::api
