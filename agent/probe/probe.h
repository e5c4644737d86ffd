// SPDX-License-Identifier: Apache-2.0
// What decide() says about probes, and what it is told of them. Value types.
// Source: Kubernetes' prober/worker.go; feature-map 1.6.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"

namespace holdfast::agent {

enum class ProbeKind : uint8_t { kStartup, kReadiness, kLiveness };

// What a probe has come to: its thresholds are counted in.
enum class ProbeResult : uint8_t { kUnknown, kSuccess, kFailure };

// A probe that is to run as long as it is wanted.
struct WantedProbe {
  std::string container;
  ContainerId id;
  ProbeKind kind = ProbeKind::kReadiness;
  WallTime started_at;  // of the container: initialDelaySeconds counts from it
  std::string pod_ip;   // where it dials, unless the probe names a host
  ProbeResult known = ProbeResult::kUnknown;  // what is remembered of it: it goes on from there
  bool operator==(const WantedProbe&) const = default;
};

struct ProbeFact {
  ContainerId id;
  ProbeKind kind = ProbeKind::kReadiness;
  ProbeResult result = ProbeResult::kUnknown;
  bool operator==(const ProbeFact&) const = default;
};

}  // namespace holdfast::agent
