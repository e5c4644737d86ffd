// SPDX-License-Identifier: Apache-2.0
// What the node is short of, by a kubelet's signals and thresholds (evictionHard). Nothing is evicted for it: the
// conditions are shown, and the scheduler keeps pods away. Source: feature-map.md 1.11, control-plane.md 4.4.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "agent/config/agent_config.h"
#include "agent/node/node_description.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

// What is left of how much. A total of 0: not known, or not limited.
struct Room {
  uint64_t left = 0;
  uint64_t total = 0;
};

struct NodeRooms {
  Room memory;                     // not in use, or a page cache that nobody uses
  Room node_bytes, node_inodes;    // of the file system with pods' layers, volumes, logs
  Room image_bytes, image_inodes;  // of the file system with images
  Room pids;
};

// Reads /proc and the file systems; what cannot be read has no total.
NodeRooms ReadRooms(const AgentConfig& config);

// Pure.
NodePressure PressureOf(const NodeRooms& rooms, const PressureThresholds& node,
                        const model::DiskReserve& images);

// Shows each for five minutes longer than it lasts, so that it does not come and go. One thread at a time.
class SteadyPressure {
 public:
  static constexpr std::chrono::minutes kHold{5};  // evictionPressureTransitionPeriod
  NodePressure Show(const NodePressure& now, BootTime at);

 private:
  struct Last {
    bool ever = false;
    BootTime at;
  };
  static bool Hold(bool now, BootTime at, Last& last);
  Last memory_, disk_, pids_;
};

}  // namespace holdfast::agent
