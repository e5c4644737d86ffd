// SPDX-License-Identifier: Apache-2.0
#include "agent/view/find_container.h"

#include <algorithm>
#include <vector>

#include "agent/kube/containers_of.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr char kDefaultContainer[] = "kubectl.kubernetes.io/default-container";

}  // namespace

std::string ContainerInPod(const core::Pod& pod, const std::string& container) {
  return StrCat("container \"", container, "\" in pod \"", pod.metadata().name(), "\"");
}

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
                                    pod.metadata().name(), ", choose one of: [", Join(names, " "),
                                    "]"));
    }
  }
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return NotFound(StrCat("container ", name, " is not valid for pod ", pod.metadata().name(),
                           ", choose one of: [", Join(names, " "), "]"));
  }
  return name;
}

Result<ContainerId> RunningContainer(const core::Pod& pod, const std::string& container) {
  const core::ContainerStatus* status = kube::StatusOf(pod, container);
  if (status == nullptr || !status->state().has_running()) {
    return Unavailable(ContainerInPod(pod, container) + " is not running");
  }
  const std::string& id = status->containerid();
  const size_t scheme = id.find("://");
  if (scheme == std::string::npos) return Internal(ContainerInPod(pod, container) + " has no id");
  return ContainerId(id.substr(scheme + 3));
}

}  // namespace holdfast::agent
