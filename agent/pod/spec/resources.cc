// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/resources.h"

namespace holdfast::agent {

namespace {

// Of "hugepages-2Mi" and the others in a list of limits.
std::vector<model::HugePageLimit> HugePages(const kube::ResourceList& limits) {
  constexpr std::string_view kPrefix = "hugepages-";
  std::vector<model::HugePageLimit> pages;
  for (const auto& [name, amount] : limits) {
    if (!name.starts_with(kPrefix)) continue;
    const auto size = kube::Amount::Parse(std::string_view(name).substr(kPrefix.size()));
    if (!size || size->Units() <= 0 || amount.IsNegative()) continue;  // validation lets none pass
    pages.push_back({static_cast<uint64_t>(size->Units()), static_cast<uint64_t>(amount.Units())});
  }
  return pages;
}

}  // namespace

model::ResourceSpec ContainerResources(const corev1::Pod& pod, const corev1::Container& container,
                                       int64_t memory_capacity) {
  const kube::ResourceList limits = kube::EffectiveLimits(pod.spec(), container);
  model::ResourceSpec out;
  // Zero is no limit, as for a kubelet and a runtime.
  const auto cpu = kube::CpuMilli(limits);
  if (cpu && *cpu > 0) out.cpu_milli_limit = cpu;
  // Who asks for nothing but is limited has shares of its limit, as with a kubelet.
  out.cpu_milli_request =
      kube::CpuMilli(kube::Requests(container)).value_or(out.cpu_milli_limit.value_or(0));
  const auto memory = kube::MemoryBytes(limits);
  if (memory && *memory > 0) out.memory_limit_bytes = memory;
  out.oom_score_adj = kube::OomScoreAdjust(pod, container, memory_capacity);
  out.huge_pages = HugePages(limits);
  return out;
}

model::ResourceSpec PodResources(const corev1::Pod& pod) {
  const corev1::PodSpec& spec = pod.spec();
  const kube::ResourceList limits = kube::PodLimits(spec);
  model::ResourceSpec out;
  // A BestEffort pod has the least share whatever its overhead is, as under a kubelet.
  if (kube::ComputeQosClass(spec) != model::QosClass::kBestEffort) {
    out.cpu_milli_request = kube::CpuMilli(kube::PodRequests(spec)).value_or(0);
  }
  if (kube::HasPodLimit(spec, "cpu")) out.cpu_milli_limit = kube::CpuMilli(limits);
  if (kube::HasPodLimit(spec, "memory")) out.memory_limit_bytes = kube::MemoryBytes(limits);
  out.huge_pages = HugePages(limits);
  return out;
}

}  // namespace holdfast::agent
