// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/saved_pod.h"

#include "agent/pod/state/record.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {

Result<void> SavedPod::Save(const corev1::Pod& pod, const PodMemory& memory, bool durable) {
  if (!pod_saved_) {
    RETURN_IF_ERROR(state_.SavePod(pod));
    pod_saved_ = true;
    synced_ = false;
  }
  if (memory_ != memory) {
    RETURN_IF_ERROR(state_.SaveRecord(pod, EncodeRecord(memory)));
    memory_ = memory;
    synced_ = false;
  }
  if (!durable || synced_) return {};
  RETURN_IF_ERROR(state_.Sync());
  HOLDFAST_PAUSE_POINT("report.terminal_synced");
  synced_ = true;
  return {};
}

}  // namespace holdfast::agent
