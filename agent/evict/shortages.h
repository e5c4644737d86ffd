// SPDX-License-Identifier: Apache-2.0
// Shortages: what the node has been short of for long enough that pods go for it. Pure; one thread at a time.
// Source: kubelet 1.36, pkg/kubelet/eviction (thresholds, grace periods, minimum reclaim); feature-map 1.11.3 to 1.11.7.
#pragma once

#include <optional>
#include <vector>

#include "agent/config/eviction.h"
#include "agent/stats/node_rooms.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

// A threshold that is not kept.
struct Shortage {
  EvictionThreshold threshold;
  Room room;
};

class Shortages {
 public:
  explicit Shortages(const EvictionConfig& config);

  // Those of now. Memory comes first, hard ones come before soft ones.
  std::vector<Shortage> Of(const NodeRooms& rooms, BootTime now);

 private:
  struct Watched {
    EvictionThreshold threshold;
    model::Threshold reclaim;  // above it, until it is kept again
    std::optional<BootTime> short_since = {};
    bool counts = false;  // it was short for its grace period, and is not over
  };
  static bool IsOver(const Watched& watched, const Room& room);

  std::vector<Watched> watched_;
};

}  // namespace holdfast::agent
