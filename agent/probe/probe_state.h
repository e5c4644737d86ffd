// SPDX-License-Identifier: Apache-2.0
// One probe of one run of a container: when it is due, and what its outcomes come to. Pure.
// Source: Kubernetes' prober/worker.go.
#pragma once

#include <chrono>
#include <optional>

#include "agent/events/event.h"
#include "agent/probe/check.h"
#include "agent/probe/probe.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

// Tries of a check that could not even be made, one right after the other.
inline constexpr int kProbeTries = 3;

// "Startup", "Readiness", "Liveness": in events and metrics.
const char* ToString(ProbeKind kind);

struct ProbeState {
  ProbeKind kind = ProbeKind::kReadiness;
  ProbeResult result = ProbeResult::kUnknown;  // what counts
  ProbeResult last = ProbeResult::kUnknown;    // the newest outcome …
  int run = 0;                                 // … and how often it came in a row
  bool over = false;                           // it has said all it ever will
  bool operator==(const ProbeState&) const = default;
};

// `known` is what a former agent found out; without it a container is alive and not ready.
ProbeState BeginProbe(ProbeKind kind, ProbeResult known);

// Counts an outcome of the last of its tries. What is to be told of it, if anything; its
// `container` is left for the caller.
std::optional<EventNote> CountOutcome(ProbeState& state, const k8s::io::api::core::v1::Probe& probe,
                                      const CheckOutcome& outcome);

struct ProbeMoment {
  WallTime wall;
  BootTime boot;
  WallTime agent_started;
  double random = 0;  // of [0, 1)
};
// The first try: after the initial delay. A container that an agent finds when it starts waits a
// random part of the period, or all of them would be tried at once.
BootTime FirstDue(const k8s::io::api::core::v1::Probe& probe, WallTime container_started,
                  const ProbeMoment& now);
// After the one that was due at `due`; at once where a try took longer than the period.
BootTime NextDue(const k8s::io::api::core::v1::Probe& probe, BootTime due, BootTime now);

}  // namespace holdfast::agent
