// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_pressure.h"

namespace holdfast::agent {
namespace {

bool NodePressure::* ConditionOf(PressureSignal signal) {
  switch (signal) {
    case PressureSignal::kMemory:
    case PressureSignal::kPodsMemory:
      return &NodePressure::memory;
    case PressureSignal::kPids:
      return &NodePressure::pids;
    default:
      return &NodePressure::disk;
  }
}

}  // namespace

NodePressure PressureOf(const NodeRooms& rooms, const std::vector<EvictionThreshold>& thresholds) {
  NodePressure pressure;
  for (const EvictionThreshold& threshold : thresholds) {
    const auto room = rooms.find(threshold.signal);
    if (room == rooms.end() || !IsShort(room->second, threshold.least)) continue;
    pressure.*ConditionOf(threshold.signal) = true;
  }
  return pressure;
}

NodePressure SteadyPressure::Show(const NodePressure& now, BootTime at) {
  return {Hold(now.memory, at, memory_), Hold(now.disk, at, disk_), Hold(now.pids, at, pids_)};
}

bool SteadyPressure::Hold(bool now, BootTime at, Last& last) const {
  if (now) last = {true, at};
  return now || (last.ever && at - last.at < hold_);
}

}  // namespace holdfast::agent
