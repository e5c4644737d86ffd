// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/resources.h"

namespace holdfast::agent {

model::ResourceSpec ContainerResources(const corev1::Pod& pod, const corev1::Container& container,
                                       int64_t memory_capacity) {
  const kube::ResourceList limits = kube::Limits(container);
  model::ResourceSpec out;
  out.cpu_milli_request = kube::CpuMilli(kube::Requests(container)).value_or(0);
  out.cpu_milli_limit = kube::CpuMilli(limits);
  // Zero is no limit, as for a kubelet and a runtime.
  const auto memory = kube::MemoryBytes(limits);
  if (memory && *memory > 0) out.memory_limit_bytes = memory;
  out.oom_score_adj = kube::OomScoreAdjust(pod, container, memory_capacity);
  return out;
}

model::ResourceSpec PodResources(const corev1::Pod& pod) {
  const corev1::PodSpec& spec = pod.spec();
  const kube::ResourceList limits = kube::PodLimits(spec);
  model::ResourceSpec out;
  out.cpu_milli_request = kube::CpuMilli(kube::PodRequests(spec)).value_or(0);
  if (kube::HasPodLimit(spec, "cpu")) out.cpu_milli_limit = kube::CpuMilli(limits);
  if (kube::HasPodLimit(spec, "memory")) out.memory_limit_bytes = kube::MemoryBytes(limits);
  return out;
}

}  // namespace holdfast::agent
