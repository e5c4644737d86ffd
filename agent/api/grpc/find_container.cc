// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/find_container.h"

#include <algorithm>
#include <vector>

#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr char kDefaultContainer[] = "kubectl.kubernetes.io/default-container";

std::vector<std::string> ContainerNames(const core::Pod& pod) {
  std::vector<std::string> names;
  for (const auto& container : pod.spec().containers()) names.push_back(container.name());
  for (const auto& container : pod.spec().initcontainers()) names.push_back(container.name());
  for (const auto& container : pod.spec().ephemeralcontainers()) {
    names.push_back(container.ephemeralcontainercommon().name());
  }
  return names;
}

std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

std::string Quoted(const std::string& container, const core::Pod& pod) {
  return StrCat("container \"", container, "\" in pod \"", pod.metadata().name(), "\"");
}

const core::Container* InitContainer(const core::Pod& pod, const std::string& name) {
  for (const auto& container : pod.spec().initcontainers()) {
    if (container.name() == name) return &container;
  }
  return nullptr;
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
  const std::vector<std::string> names = ContainerNames(pod);
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

const core::ContainerStatus* StatusOf(const core::Pod& pod, const std::string& container) {
  const auto& status = pod.status();
  for (const auto* list : {&status.containerstatuses(), &status.initcontainerstatuses(),
                           &status.ephemeralcontainerstatuses()}) {
    for (const auto& candidate : *list) {
      if (candidate.name() == container) return &candidate;
    }
  }
  return nullptr;
}

Result<ContainerId> RunningContainer(const core::Pod& pod, const std::string& container) {
  const core::ContainerStatus* status = StatusOf(pod, container);
  if (status == nullptr || !status->state().has_running()) {
    return Unavailable(Quoted(container, pod) + " is not running");
  }
  const std::string& id = status->containerid();
  const size_t scheme = id.find("://");
  if (scheme == std::string::npos) return Internal(Quoted(container, pod) + " has no id");
  return ContainerId(id.substr(scheme + 3));
}

Result<uint32_t> LogAttempt(const core::Pod& pod, const std::string& container, bool previous) {
  const core::ContainerStatus* status = StatusOf(pod, container);
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

std::string LogDirectory(const core::Pod& pod, const std::string& container) {
  const auto& meta = pod.metadata();
  return StrCat(meta.namespace_(), "_", meta.name(), "_", meta.uid(), "/", container);
}

bool RunsNoMore(const core::Pod& pod, const std::string& container) {
  const std::string& phase = pod.status().phase();
  if (phase == "Succeeded" || phase == "Failed") return true;
  const core::ContainerStatus* status = StatusOf(pod, container);
  if (status == nullptr || !status->state().has_terminated()) return false;
  if (pod.metadata().has_deletiontimestamp()) return true;
  const bool succeeded = status->state().terminated().exitcode() == 0;
  const core::Container* init = InitContainer(pod, container);
  if (init != nullptr && init->restartpolicy() != "Always") {
    return succeeded || pod.spec().restartpolicy() == "Never";
  }
  if (init != nullptr) return false;
  if (pod.spec().restartpolicy() == "Never") return true;
  return pod.spec().restartpolicy() == "OnFailure" && succeeded;
}

}  // namespace holdfast::agent::api
