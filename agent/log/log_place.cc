// SPDX-License-Identifier: Apache-2.0
#include "agent/log/log_place.h"

#include <algorithm>
#include <type_traits>

#include "agent/kube/containers_of.h"
#include "agent/kube/pod_status.h"
#include "agent/kube/restart_policy.h"
#include "agent/pod/state/paths.h"
#include "agent/view/find_container.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

Error WaitingError(const corev1::ContainerStatus& status, const corev1::Pod& pod) {
  const std::string head = ContainerInPod(pod, status.name()) + " is waiting to start: ";
  const std::string& reason = status.state().waiting().reason();
  if (reason == "ErrImagePull") return Unavailable(head + "image can't be pulled");
  if (reason == "ImagePullBackOff") return Unavailable(head + "trying and failing to pull image");
  return Unavailable(head + (reason.empty() ? "no logs yet" : reason));
}

}  // namespace

Result<uint32_t> LogAttempt(const corev1::Pod& pod, const std::string& container, bool previous) {
  const corev1::ContainerStatus* status = kube::StatusOf(pod, container);
  if (status == nullptr) {
    return Unavailable(ContainerInPod(pod, container) + " is waiting to start - no logs yet");
  }
  const auto last_started = static_cast<uint32_t>(std::max(status->restartcount(), 0));
  const bool has_last = status->laststate().has_terminated();
  // While a container waits (back-off), the run that ended last is both the present and the
  // previous.
  const bool waiting = !status->state().has_running() && !status->state().has_terminated();
  if (previous) {
    if (!has_last || (!waiting && last_started == 0)) {
      return NotFound(StrCat("previous terminated ", ContainerInPod(pod, container), " not found"));
    }
    return waiting ? last_started : last_started - 1;
  }
  if (!waiting || has_last) return last_started;
  return WaitingError(*status, pod);
}

std::string LogDirectory(const model::Instance& instance, const corev1::Pod& pod,
                         const std::string& container) {
  const auto& meta = pod.metadata();
  return PodPaths(instance, PodUid(meta.uid()), meta.namespace_(), meta.name())
      .ContainerLogs(container);
}

bool RunHasEnded(const corev1::Pod& pod, const std::string& container, uint32_t attempt) {
  const corev1::ContainerStatus* status = kube::StatusOf(pod, container);
  if (status == nullptr) return false;
  return !status->state().has_running() ||
         static_cast<uint32_t>(std::max(status->restartcount(), 0)) > attempt;
}

bool RunsNoMore(const corev1::Pod& pod, const std::string& name) {
  if (kube::IsTerminalPhase(pod.status().phase())) return true;
  const corev1::ContainerStatus* status = kube::StatusOf(pod, name);
  if (status == nullptr || !status->state().has_terminated()) return false;
  if (pod.metadata().has_deletiontimestamp()) return true;
  // Another container's end may bring all of them back.
  if (kube::CouldRestartAll(pod)) return false;
  const int32_t exit_code = status->state().terminated().exitcode();
  bool again = false;
  kube::ForEachContainer(pod.spec(), [&](kube::ContainerList list, const auto& container) {
    if constexpr (std::is_same_v<decltype(container), const corev1::Container&>) {
      if (container.name() != name) return;
      again = kube::RestartsAfter(pod, container, list == kube::ContainerList::kInit, exit_code);
    }  // an ephemeral container never restarts
  });
  return !again;
}

}  // namespace holdfast::agent
