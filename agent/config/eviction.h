// SPDX-License-Identifier: Apache-2.0
// What a node may be short of, from when on it is, and what it does then: a kubelet's signals and its eviction* settings.
// Plain values. Source: feature-map 1.11.3 to 1.11.6.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "holdfast/model/disk_reserve.h"

namespace holdfast::agent {

enum class PressureSignal : uint8_t {
  kMemory,
  kPodsMemory,  // of what pods may have together
  kNodeBytes,   // of the file system with pods' layers, volumes, logs
  kNodeInodes,
  kImageBytes,
  kImageInodes,
  kPids,
};
inline constexpr std::array<std::string_view, 7> kPressureSignals = {
    "memory.available",  "allocatableMemory.available", "nodefs.available", "nodefs.inodesFree",
    "imagefs.available", "imagefs.inodesFree",          "pid.available"};

inline std::string_view NameOf(PressureSignal signal) {
  return kPressureSignals[static_cast<size_t>(signal)];
}

using SignalAmounts = std::map<PressureSignal, model::Threshold>;

// Below it the node is short.
struct EvictionThreshold {
  PressureSignal signal;
  model::Threshold least;
  std::optional<std::chrono::seconds> grace;  // a soft one: pods go when it has lasted that long
};

struct EvictionConfig {
  SignalAmounts hard{{PressureSignal::kMemory, {0, 100ull << 20}},
                     {PressureSignal::kNodeBytes, {10, 0}},
                     {PressureSignal::kNodeInodes, {5, 0}},
                     {PressureSignal::kImageBytes, {15, 0}},
                     {PressureSignal::kImageInodes, {5, 0}}};
  SignalAmounts soft = {};
  std::map<PressureSignal, std::chrono::seconds> soft_grace =
      {};                                         // for each of `soft`, and no other
  SignalAmounts minimum_reclaim = {};             // how far above a threshold it is over
  std::chrono::seconds max_pod_grace{0};          // that a pod gets for a soft one
  std::chrono::seconds pressure_transition{300};  // for which a condition outlasts its cause
};

// Hard ones first; none of 0, below which nothing falls. What pods have together is held to the hard threshold of memory,
// as by a kubelet.
std::vector<EvictionThreshold> ThresholdsOf(const EvictionConfig& config);

// What images leave of their file system to others.
model::DiskReserve ImageReserve(const EvictionConfig& config);

}  // namespace holdfast::agent
