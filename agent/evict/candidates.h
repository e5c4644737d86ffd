// SPDX-License-Identifier: Apache-2.0
// Which pod goes first when the node is short of something. Pure.
// Source: kubelet 1.36, pkg/kubelet/eviction (rankMemoryPressure, rankDiskPressureFunc, rankPIDPressure); feature-map
// 1.11.8, 1.11.10.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config/eviction.h"
#include "agent/evict/shortages.h"
#include "agent/kube/quantity.h"
#include "agent/pod/decide/types.h"
#include "agent/stats/node_stats.h"
#include "agent/view/pod_view.h"

namespace holdfast::agent {

// "memory", "ephemeral-storage", "inodes", "pids": what a signal is about.
std::string_view ResourceOf(PressureSignal signal);

// A pod that may go, and what it has of what is short.
struct Candidate {
  PodPtr pod;
  std::optional<uint64_t> used = {};  // absent: not known
  uint64_t requested = 0;
  std::vector<ContainerStats> containers = {};  // of those that run
};

// Of the pods that have not ended, the one first that goes first: of which nothing is known, which has more than it asked
// for, of the lowest priority, which has most above that.
std::vector<Candidate> RankForEviction(const std::vector<PodPtr>& pods, const NodeSample& sample,
                                       PressureSignal signal);

// With a kubelet's words of what is short, and of the containers that have more of it than they asked for.
Eviction EvictionFor(const Candidate& candidate, const Shortage& shortage);

}  // namespace holdfast::agent
