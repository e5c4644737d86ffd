// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/saved_pod.h"

#include <utility>

#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {

Result<void> SavedPod::Save(const corev1::Pod& pod, const PodMemory& memory, bool durable) {
  if (!pod_saved_) {
    RETURN_IF_ERROR(state_.SavePod(pod));
    pod_saved_ = true;
  }
  std::string record = EncodeRecord(memory);
  const bool sync = durable && !pod_synced_;
  if (record == record_ && !sync) return {};
  if (sync) RETURN_IF_ERROR(state_.SyncPod(pod));
  RETURN_IF_ERROR(state_.SaveRecord(pod, record, durable));
  if (durable) HOLDFAST_PAUSE_POINT("report.terminal_synced");
  pod_synced_ = durable;
  record_ = std::move(record);
  return {};
}

}  // namespace holdfast::agent
