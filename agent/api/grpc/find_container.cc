// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/find_container.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "agent/kube/containers_of.h"
#include "agent/kube/restart_policy.h"
#include "agent/pod/state/paths.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr char kDefaultContainer[] = "kubectl.kubernetes.io/default-container";

std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

std::string Quoted(const std::string& container, const core::Pod& pod) {
  return StrCat("container \"", container, "\" in pod \"", pod.metadata().name(), "\"");
}

Error WaitingError(const core::ContainerStatus& status, const core::Pod& pod) {
  const std::string head = Quoted(status.name(), pod) + " is waiting to start: ";
  const std::string& reason = status.state().waiting().reason();
  if (reason == "ErrImagePull") return Unavailable(head + "image can't be pulled");
  if (reason == "ImagePullBackOff") return Unavailable(head + "trying and failing to pull image");
  return Unavailable(head + (reason.empty() ? "no logs yet" : reason));
}

}  // namespace

Result<PodPtr> FindPod(const PodView& view, const std::string& pod_namespace,
                       const std::string& name) {
  if (pod_namespace.empty() || name.empty()) {
    return InvalidArgument("a pod's namespace and name are required");
  }
  if (PodPtr pod = view.FindPod(pod_namespace, name)) return pod;
  return NotFound(StrCat("pods \"", name, "\" not found"));
}

Result<std::string> ChooseContainer(const core::Pod& pod, const std::string& requested) {
  const std::vector<std::string> names = kube::ContainerNames(pod);
  std::string name = requested;
  if (name.empty()) {
    const auto& annotations = pod.metadata().annotations();
    if (const auto found = annotations.find(kDefaultContainer); found != annotations.end()) {
      name = found->second;
    } else if (pod.spec().containers_size() == 1) {
      name = pod.spec().containers(0).name();
    } else {
      return InvalidArgument(StrCat("a container name must be specified for pod ",
                                    pod.metadata().name(), ", choose one of: [", Join(names), "]"));
    }
  }
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return NotFound(StrCat("container ", name, " is not valid for pod ", pod.metadata().name(),
                           ", choose one of: [", Join(names), "]"));
  }
  return name;
}

Result<ContainerId> RunningContainer(const core::Pod& pod, const std::string& container) {
  const core::ContainerStatus* status = kube::StatusOf(pod, container);
  if (status == nullptr || !status->state().has_running()) {
    return Unavailable(Quoted(container, pod) + " is not running");
  }
  const std::string& id = status->containerid();
  const size_t scheme = id.find("://");
  if (scheme == std::string::npos) return Internal(Quoted(container, pod) + " has no id");
  return ContainerId(id.substr(scheme + 3));
}

Result<uint32_t> LogAttempt(const core::Pod& pod, const std::string& container, bool previous) {
  const core::ContainerStatus* status = kube::StatusOf(pod, container);
  if (status == nullptr) {
    return Unavailable(Quoted(container, pod) + " is waiting to start - no logs yet");
  }
  const auto last_started = static_cast<uint32_t>(std::max(status->restartcount(), 0));
  const bool has_last = status->laststate().has_terminated();
  // While a container waits (back-off), the run that ended last is both the present and the
  // previous.
  const bool waiting = !status->state().has_running() && !status->state().has_terminated();
  if (previous) {
    if (!has_last || (!waiting && last_started == 0)) {
      return NotFound(StrCat("previous terminated ", Quoted(container, pod), " not found"));
    }
    return waiting ? last_started : last_started - 1;
  }
  if (!waiting || has_last) return last_started;
  return WaitingError(*status, pod);
}

std::string LogDirectory(const model::Instance& instance, const core::Pod& pod,
                         const std::string& container) {
  const auto& meta = pod.metadata();
  return PodPaths(instance, PodUid(meta.uid()), meta.namespace_(), meta.name())
      .ContainerLogs(container);
}

bool RunsNoMore(const core::Pod& pod, const std::string& name) {
  const std::string& phase = pod.status().phase();
  if (phase == "Succeeded" || phase == "Failed") return true;
  const core::ContainerStatus* status = kube::StatusOf(pod, name);
  if (status == nullptr || !status->state().has_terminated()) return false;
  if (pod.metadata().has_deletiontimestamp()) return true;
  // Another container's end may bring all of them back.
  if (kube::CouldRestartAll(pod)) return false;
  const int32_t exit_code = status->state().terminated().exitcode();
  bool again = false;
  kube::ForEachContainer(pod.spec(), [&](kube::ContainerList list, const auto& container) {
    if constexpr (std::is_same_v<decltype(container), const core::Container&>) {
      if (container.name() != name) return;
      again = kube::RestartsAfter(pod, container, list == kube::ContainerList::kInit, exit_code);
    }  // an ephemeral container never restarts
  });
  return !again;
}

}  // namespace holdfast::agent::api
