// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/probe_metrics.h"

#include "agent/probe/probe_state.h"

namespace holdfast::agent {
namespace {

using Pod = k8s::io::api::core::v1::Pod;

MetricLabels DurationLabels(const Pod& pod, const std::string& container, ProbeKind kind) {
  return {{"container", container},
          {"namespace", pod.metadata().namespace_()},
          {"pod", pod.metadata().name()},
          {"probe_type", ToString(kind)}};
}

}  // namespace

void ProbeMetrics::Count(const Pod& pod, const WantedProbe& probe, CheckOutcome::How how,
                         std::chrono::nanoseconds took) {
  if (how == CheckOutcome::How::kError) return;
  const bool failed = how == CheckOutcome::How::kFailure;
  results_.Add({{"container", probe.container},
                {"namespace", pod.metadata().namespace_()},
                {"pod", pod.metadata().name()},
                {"pod_uid", pod.metadata().uid()},
                {"probe_type", ToString(probe.kind)},
                {"result", failed ? "failed" : "successful"}});
  if (failed) return;  // as a kubelet: how long an answer took
  durations_.Observe(std::chrono::duration<double>(took).count(),
                     DurationLabels(pod, probe.container, probe.kind));
}

void ProbeMetrics::Forget(const Pod& pod) {
  results_.Forget("pod_uid", pod.metadata().uid());
  for (const auto* list : {&pod.spec().initcontainers(), &pod.spec().containers()}) {
    for (const auto& container : *list) {
      for (const auto kind : {ProbeKind::kStartup, ProbeKind::kReadiness, ProbeKind::kLiveness}) {
        durations_.Forget(DurationLabels(pod, container.name(), kind));
      }
    }
  }
}

std::string ProbeMetrics::Text() const {
  MetricsText text;
  durations_.Print(text);
  results_.Print(text);
  return text.text();
}

}  // namespace holdfast::agent
