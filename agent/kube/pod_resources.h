// SPDX-License-Identifier: Apache-2.0
// What a pod asks for in numbers: effective requests and limits (feature-map 1.4.6, 2.4.7), QoS
// class, critical pods. Pure; thread-safe. Quantities that do not parse count as absent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "agent/kube/quantity.h"
#include "agent/kube/types_fwd.h"
#include "holdfast/model/container_spec.h"

namespace holdfast::agent::kube {

// By resource name: "cpu", "memory", "ephemeral-storage", "hugepages-2Mi", …
using ResourceList = std::map<std::string, Amount, std::less<>>;

ResourceList Requests(const corev1::Container& container);
ResourceList Limits(const corev1::Container& container);

// What the cgroup of a container is limited to: its own limits, and the pod's of cpu, memory and huge pages where it has
// none.
ResourceList EffectiveLimits(const corev1::PodSpec& spec, const corev1::Container& container);

// Millicores, rounded up; absent when the resource is not in the list.
std::optional<int64_t> CpuMilli(const ResourceList& list);
// Bytes, rounded up; absent when the resource is not in the list.
std::optional<int64_t> MemoryBytes(const ResourceList& list);

// What a pod as a whole may ask for.
bool MayBePodLevel(std::string_view resource);

// An init container that goes on running beside the others (restartPolicy Always).
bool IsSidecar(const corev1::Container& init_container);

// max(sum of containers and sidecars, max over init containers of it and the sidecars before it),
// or the pod-level value where there is one, plus overhead.
ResourceList PodRequests(const corev1::PodSpec& spec);
// The same sum over limits. A container without a limit adds nothing; whether a limit may be set on
// the pod's cgroup is what HasPodLimit() tells.
ResourceList PodLimits(const corev1::PodSpec& spec);

// True when the pod itself or every container (of all kinds but ephemeral) has that limit: then
// and only then the pod's cgroup gets one.
bool HasPodLimit(const corev1::PodSpec& spec, std::string_view resource);

model::QosClass ComputeQosClass(const corev1::PodSpec& spec);
std::string_view QosClassName(model::QosClass qos);  // "Guaranteed", …

// One that came from a file, not from an API server.
bool IsStaticPod(const corev1::Pod& pod);

// Static and mirror pods and those of priority 2,000,000,000 and more (feature-map 1.1.13).
bool IsCriticalPod(const corev1::Pod& pod);

// Whether a container may be swapped out where swapBehavior is LimitedSwap. Source: kubelet 1.36, kuberuntime.
bool MaySwap(const corev1::Pod& pod, const corev1::Container& container);

// The oom_score_adj of a container on a node with that much memory (feature-map 2.4.11, 1.4.5).
int32_t OomScoreAdjust(const corev1::Pod& pod, const corev1::Container& container,
                       int64_t node_memory_bytes);

}  // namespace holdfast::agent::kube
