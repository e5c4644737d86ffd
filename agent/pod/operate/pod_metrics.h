// SPDX-License-Identifier: Apache-2.0
// PodMetrics: how long what is done about pods takes, and how often it is done, by a kubelet's names
// where they mean the same. Thread-safe. Source: feature-map 1.16.4, Kubernetes' kubelet/metrics.
#pragma once

#include <chrono>
#include <string>

#include "agent/base/metric_family.h"
#include "agent/kube/types_fwd.h"
#include "agent/pod/decide/types.h"

namespace holdfast::agent {

class PodMetrics {
 public:
  PodMetrics();

  // A pod's turn; `type`: "create" for its first, "update" after a change of the pod, "kill" while
  // it goes, else "sync".
  void NoteTurn(const char* type, std::chrono::nanoseconds took);
  // From when this agent heard of a pod until it ran.
  void NotePodRunning(std::chrono::nanoseconds took);
  // The end of an operation that was not cancelled.
  void NoteOperation(const corev1::Pod& pod, const Action& action, const OperationEnd& end,
                     std::chrono::nanoseconds took);

  // A hook's sleep that was given up before its end.
  void NoteSleepGivenUp();

  // A new version of a pod: what of its amounts it asks to be changed.
  void NoteChange(const corev1::Pod& before, const corev1::Pod& after);
  // What was told to a pod that asks for other amounts, once for each answer.
  void NoteResizeVerdict(const ResizeVerdict& verdict);

  // A pod that the node wants to end.
  void NoteEviction(const Eviction& eviction);

  std::string Text() const;

 private:
  void NoteStart(const corev1::Pod& pod, const Action& action, const OperationEnd& end);

  HistogramFamily pulls_;
  HistogramFamily pod_starts_;
  HistogramFamily turns_;
  HistogramFamily sandboxes_;
  CounterFamily operations_;
  CounterFamily operation_errors_;
  HistogramFamily operation_durations_;
  CounterFamily started_pods_;
  CounterFamily started_pod_errors_;
  CounterFamily started_containers_;
  CounterFamily started_container_errors_;
  CounterFamily evictions_;
  CounterFamily preemptions_;
  CounterFamily hook_fallbacks_;
  CounterFamily sleeps_given_up_;
  CounterFamily requested_resizes_;
  CounterFamily infeasible_resizes_;
  CounterFamily accepted_resizes_;
  HistogramFamily resize_durations_;
};

}  // namespace holdfast::agent
