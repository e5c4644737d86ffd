// SPDX-License-Identifier: Apache-2.0
#include "agent/config/eviction.h"

namespace holdfast::agent {
namespace {

model::Threshold Of(const SignalAmounts& amounts, PressureSignal signal) {
  const auto found = amounts.find(signal);
  return found == amounts.end() ? model::Threshold() : found->second;
}

bool IsNever(const model::Threshold& least) { return least.percent <= 0 && least.absolute == 0; }

}  // namespace

std::vector<EvictionThreshold> ThresholdsOf(const EvictionConfig& config) {
  std::vector<EvictionThreshold> thresholds;
  for (const auto& [signal, least] : config.hard) {
    if (IsNever(least)) continue;
    thresholds.push_back({signal, least, {}});
    if (signal == PressureSignal::kMemory) {
      thresholds.push_back({PressureSignal::kPodsMemory, least, {}});
    }
  }
  for (const auto& [signal, least] : config.soft) {
    if (!IsNever(least)) thresholds.push_back({signal, least, config.soft_grace.at(signal)});
  }
  return thresholds;
}

model::DiskReserve ImageReserve(const EvictionConfig& config) {
  return {Of(config.hard, PressureSignal::kImageBytes),
          Of(config.hard, PressureSignal::kImageInodes)};
}

}  // namespace holdfast::agent
