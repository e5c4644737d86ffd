// SPDX-License-Identifier: Apache-2.0
// From the names in a request to a pod, a container, its id, or its log. Pure but for the view.
#pragma once

#include <cstdint>
#include <string>

#include "agent/pod/view.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/model/instance.h"

namespace holdfast::agent::api {

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

// Which run's log is meant. kUnavailable: waiting to start; kNotFound: no previous run.
Result<uint32_t> LogAttempt(const k8s::io::api::core::v1::Pod& pod, const std::string& container,
                            bool previous);

// Of the container, below the pod log directory (agent/pod/state/paths.h).
std::string LogDirectory(const model::Instance& instance, const k8s::io::api::core::v1::Pod& pod,
                         const std::string& container);

// True when this container's present or last run is its last: the pod is over, or the container has
// ended and its restart policies (agent/kube/restart_policy.h) let it be.
bool RunsNoMore(const k8s::io::api::core::v1::Pod& pod, const std::string& container);

}  // namespace holdfast::agent::api
