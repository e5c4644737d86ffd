// SPDX-License-Identifier: Apache-2.0
// PodPlace: a pod's room on the node: whether it is taken, what it was given, and whether there is
// room for other amounts that it asks for. One thread at a time, but for GiveUp().
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/pod/decide/types.h"

namespace holdfast::agent {

class NodeAdmission;
class PodMetrics;

class PodPlace {
 public:
  // `admission` and `metrics` are borrowed; no admission: every pod is taken, with all that it asks
  // for; no metrics: nothing is counted. A pod that was taken before keeps its place, whatever the
  // node has by now.
  PodPlace(NodeAdmission* admission, PodMetrics* metrics, std::shared_ptr<const corev1::Pod> pod,
           const PodMemory& memory);

  // Whether the node takes the pod, unless that was decided before.
  void Ensure(PodMemory& memory) const;
  // The pod as it is wanted now. Where it asks for other amounts than it was given: whether the node
  // has room for them. Until it has, the pod runs with what it has. What it is given is its own
  // before it is remembered: an agent that is killed in between asks again.
  void Ask(std::shared_ptr<const corev1::Pod> pod, const PodMemory& memory, bool ends);
  // It is for others from now on. Idempotent; from any thread. `how`: NodeAdmission::Release().
  void GiveUp(const char* how) const;

  // The pod with the amounts that it was given, and what was said to the others.
  const std::shared_ptr<const corev1::Pod>& allocated() const { return allocated_; }
  const std::optional<ResizeVerdict>& verdict() const { return verdict_; }

 private:
  void Count(const ResizeVerdict& verdict, const std::optional<ResizeNote>& told) const;

  NodeAdmission* const admission_;
  PodMetrics* const metrics_;
  const std::string uid_;
  std::shared_ptr<const corev1::Pod> pod_;
  std::shared_ptr<const corev1::Pod> allocated_;
  std::optional<ResizeVerdict> verdict_;
};

}  // namespace holdfast::agent
