// SPDX-License-Identifier: Apache-2.0
#include "agent/evict/shortages.h"

#include <algorithm>

namespace holdfast::agent {

Shortages::Shortages(const EvictionConfig& config) {
  for (const EvictionThreshold& threshold : ThresholdsOf(config)) {
    const bool of_pods = threshold.signal == PressureSignal::kPodsMemory;
    const auto reclaim =
        config.minimum_reclaim.find(of_pods ? PressureSignal::kMemory : threshold.signal);
    watched_.push_back({.threshold = threshold,
                        .reclaim = reclaim == config.minimum_reclaim.end() ? model::Threshold()
                                                                           : reclaim->second});
  }
  std::ranges::stable_partition(watched_, [](const Watched& watched) {
    return watched.threshold.signal == PressureSignal::kMemory ||
           watched.threshold.signal == PressureSignal::kPodsMemory;
  });
}

bool Shortages::IsOver(const Watched& watched, const Room& room) {
  if (IsShort(room, watched.threshold.least)) return false;
  if (!watched.counts) return true;
  return room.left >= watched.threshold.least.Of(room.total) + watched.reclaim.Of(room.total);
}

std::vector<Shortage> Shortages::Of(const NodeRooms& rooms, BootTime now) {
  std::vector<Shortage> shortages;
  for (Watched& watched : watched_) {
    const auto room = rooms.find(watched.threshold.signal);
    if (room == rooms.end() || IsOver(watched, room->second)) {
      watched.short_since.reset();
      watched.counts = false;
      continue;
    }
    if (!watched.short_since) watched.short_since = now;
    const auto grace = watched.threshold.grace.value_or(std::chrono::seconds(0));
    watched.counts = watched.counts || now - *watched.short_since >= grace;
    if (watched.counts) shortages.push_back({watched.threshold, room->second});
  }
  return shortages;
}

}  // namespace holdfast::agent
