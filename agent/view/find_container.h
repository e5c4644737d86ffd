// SPDX-License-Identifier: Apache-2.0
// From the names in a request to a pod, a container, its id. Pure but for the view.
#pragma once

#include <string>

#include "agent/view/pod_view.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// kNotFound: `pods "x" not found`.
Result<PodPtr> FindPod(const PodView& view, const std::string& pod_namespace,
                       const std::string& name);

// `requested`, or the pod's default when empty: the one that the annotation
// kubectl.kubernetes.io/default-container names, or the only one. kInvalidArgument when there are
// several, kNotFound when the pod has none of that name.
Result<std::string> ChooseContainer(const k8s::io::api::core::v1::Pod& pod,
                                    const std::string& requested);

// The id of a running container; kUnavailable when it does not run.
Result<ContainerId> RunningContainer(const k8s::io::api::core::v1::Pod& pod,
                                     const std::string& container);

// "container "c" in pod "p"", for errors.
std::string ContainerInPod(const k8s::io::api::core::v1::Pod& pod, const std::string& container);

}  // namespace holdfast::agent
