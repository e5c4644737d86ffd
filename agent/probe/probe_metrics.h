// SPDX-License-Identifier: Apache-2.0
// ProbeMetrics: how often probes were tried, with what result, and how long they took, by a kubelet's
// names. Over restarts of the container, as long as the pod is there. Thread-safe.
// Source: Kubernetes' prober_manager.go.
#pragma once

#include <chrono>
#include <string>

#include "agent/base/metric_family.h"
#include "agent/probe/check.h"
#include "agent/probe/probe.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

class ProbeMetrics {
 public:
  // The outcome of a probe that could be made; of the others nothing is counted.
  void Count(const k8s::io::api::core::v1::Pod& pod, const WantedProbe& probe,
             CheckOutcome::How how, std::chrono::nanoseconds took);
  // All of this pod.
  void Forget(const k8s::io::api::core::v1::Pod& pod);
  // What /metrics/probes answers.
  std::string Text() const;

 private:
  CounterFamily results_{
      "prober_probe_total",
      "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by "
      "result."};
  HistogramFamily durations_{"prober_probe_duration_seconds",
                             "[ALPHA] Duration in seconds for a probe response.", DefaultBuckets()};
};

}  // namespace holdfast::agent
