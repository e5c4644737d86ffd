// SPDX-License-Identifier: Apache-2.0
// Prober: runs the probes of all pods, each on its own schedule, and keeps what they have come to.
// A pod's turn says which are wanted and reads the facts; it is asked for only when one changes.
// Thread-safe; the probes themselves live on the thread of its CheckRunner.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/events/event.h"
#include "agent/probe/check_runner.h"
#include "agent/probe/probe.h"
#include "agent/probe/probe_metrics.h"
#include "holdfast/base/clock.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

class Prober {
 public:
  using PodPtr = std::shared_ptr<const k8s::io::api::core::v1::Pod>;
  // Called from the runner's thread.
  struct Callbacks {
    std::function<void(const k8s::io::api::core::v1::Pod&, const EventNote&)> event;
  };

  // `runtime` and `clock` are borrowed.
  static Result<std::unique_ptr<Prober>> Start(ContainerRuntime& runtime, const Clock& clock,
                                               Callbacks callbacks);
  // Nothing is called afterwards.
  ~Prober();
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  // For what else is to be tried in containers: hooks.
  CheckRunner& checks() { return *runner_; }

  // A result has changed; from the runner's thread.
  void SetListener(std::function<void(const PodUid&)> changed);

  // All that is wanted of this pod from now on; what was under way and is not among it is given up.
  // Nothing: there are no probes of it for now.
  void Want(PodPtr pod, std::vector<WantedProbe> probes);
  // The pod is gone: nothing is wanted of it, and what was counted of it is dropped.
  void Forget(PodPtr pod);
  std::vector<ProbeFact> FactsOf(const PodUid& uid) const;
  // What /metrics/probes answers.
  std::string MetricsText() const { return metrics_.Text(); }

 private:
  Prober(std::unique_ptr<CheckRunner> runner, const Clock& clock, Callbacks callbacks);
  struct Worker;
  using Key = std::pair<ContainerId, ProbeKind>;

  void Take(const PodPtr& pod, const std::vector<WantedProbe>& probes);
  std::shared_ptr<Worker> Make(const PodPtr& pod, const WantedProbe& wanted);
  void Schedule(const std::shared_ptr<Worker>& worker);
  void Try(const std::shared_ptr<Worker>& worker);
  void OnOutcome(const std::shared_ptr<Worker>& worker, const CheckOutcome& outcome);
  void NoteResult(const Worker& worker);
  double Random();

  const std::unique_ptr<CheckRunner> runner_;
  const Clock& clock_;
  const Callbacks callbacks_;
  ProbeMetrics metrics_;
  const WallTime started_;                                            // the agent, as good as
  std::map<PodUid, std::map<Key, std::shared_ptr<Worker>>> workers_;  // of the runner's thread

  mutable std::mutex mutex_;  // what follows
  std::function<void(const PodUid&)> changed_;
  std::map<PodUid, std::map<Key, ProbeResult>> results_;  // those that were heard of
};

}  // namespace holdfast::agent
