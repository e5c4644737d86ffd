// SPDX-License-Identifier: Apache-2.0
// Who has to go so that a critical pod finds room: as few as can be, of those that asked for least. Pure.
// Source: kubelet 1.36, pkg/kubelet/preemption; feature-map 1.11.1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/pod/admit/node_use.h"

namespace holdfast::agent {

// What is lacking, in PodUse's units.
struct Shortfall {
  std::string resource;
  int64_t amount = 0;
};

struct Preemptible {
  std::string uid;
  const PodUse* use = nullptr;  // borrowed
};

// Critical before others; else who has the higher priority, when both have one.
bool MayPreempt(const PodUse& preemptor, const PodUse& preemptee);

// What is still lacking when these have gone.
std::vector<Shortfall> Without(const std::vector<Shortfall>& lacking,
                               const std::vector<Preemptible>& gone);

// UIDs of those that have to go; a Guaranteed pod only when all others would not do, and a Burstable
// one only when BestEffort ones would not. Nothing: even all together have too little.
std::optional<std::vector<std::string>> ChooseVictims(const std::vector<Preemptible>& candidates,
                                                      const std::vector<Shortfall>& lacking);

}  // namespace holdfast::agent
