// SPDX-License-Identifier: Apache-2.0
// What the node is short of, by a kubelet's signals. Source: feature-map.md 1.11, control-plane.md 4.4.
#pragma once

#include <chrono>
#include <vector>

#include "agent/config/eviction.h"
#include "agent/node/node_description.h"
#include "agent/stats/node_rooms.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

// Pure.
NodePressure PressureOf(const NodeRooms& rooms, const std::vector<EvictionThreshold>& thresholds);

// Shows each for longer than it lasts, so that it does not come and go. One thread at a time.
class SteadyPressure {
 public:
  // For how long: evictionPressureTransitionPeriod.
  explicit SteadyPressure(std::chrono::seconds hold) : hold_(hold) {}
  NodePressure Show(const NodePressure& now, BootTime at);

 private:
  struct Last {
    bool ever = false;
    BootTime at;
  };
  bool Hold(bool now, BootTime at, Last& last) const;
  const std::chrono::seconds hold_;
  Last memory_, disk_, pids_;
};

}  // namespace holdfast::agent
