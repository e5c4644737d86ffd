// SPDX-License-Identifier: Apache-2.0
// Kubernetes' amounts as what the runtime is told for a container and for the pod's cgroup. Pure.
#pragma once

#include <cstdint>

#include "agent/kube/pod_resources.h"
#include "agent/pod/spec/node_environment.h"
#include "holdfast/model/container_spec.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

model::ResourceSpec ContainerResources(const corev1::Pod& pod, const corev1::Container& container,
                                       const NodeEnvironment& node);
// The pod's cgroup has a limit only where every container has one.
model::ResourceSpec PodResources(const corev1::Pod& pod, const MemoryPolicy& policy);

}  // namespace holdfast::agent
