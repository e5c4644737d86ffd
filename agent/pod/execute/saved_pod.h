// SPDX-License-Identifier: Apache-2.0
// SavedPod: what of a pod is on the disk, so that only what is new is written. One thread at a time.
#pragma once

#include <optional>

#include "agent/pod/decide/types.h"
#include "agent/pod/state/pod_state_store.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

class SavedPod {
 public:
  // `state` is borrowed.
  explicit SavedPod(PodStateStore& state) : state_(state) {}

  // The pod is another than the one that was saved.
  void PodChanged() { pod_saved_ = false; }
  // `durable`: it outlives a crash of the machine. After a failure it is as before, or partly new.
  Result<void> Save(const corev1::Pod& pod, const PodMemory& memory, bool durable);

 private:
  PodStateStore& state_;
  std::optional<PodMemory> memory_;  // whose record it is
  bool pod_saved_ = false;           // the pod as it is
  bool synced_ = false;              // pod and record, for good
};

}  // namespace holdfast::agent
