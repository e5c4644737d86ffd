// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/resources.h"

#include <optional>

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

// A container has a part of the swap as large as its part of the memory.
int64_t SwapLimit(int64_t request, const NodeEnvironment& node) {
  if (node.memory_capacity_bytes <= 0 || request > node.memory_capacity_bytes) return 0;
  const double share =
      static_cast<double>(request) / static_cast<double>(node.memory_capacity_bytes);
  return static_cast<int64_t>(share * static_cast<double>(node.swap_capacity_bytes));
}

// Whole pages from the request on towards the limit, or what all pods may have; nothing where that is not above it.
std::optional<int64_t> MemoryHigh(int64_t request, int64_t limit, const NodeEnvironment& node) {
  const int64_t most = limit != 0 ? limit : node.memory_allocatable_bytes;
  if (request == limit || most <= 0) return {};
  const double bytes = static_cast<double>(request) +
                       static_cast<double>(most - request) * node.memory.throttling_factor;
  const int64_t page = node.memory.page_bytes;
  const int64_t high = static_cast<int64_t>(bytes) / page * page;
  return high > request ? std::optional(high) : std::nullopt;
}

// What is kept for a Guaranteed pod is its own; of a Burstable one it is taken last.
void Reserve(int64_t request, const corev1::PodSpec& spec, model::ResourceSpec& out) {
  const bool guaranteed = kube::ComputeQosClass(spec) == model::QosClass::kGuaranteed;
  (guaranteed ? out.memory_min_bytes : out.memory_low_bytes) = request;
}

}  // namespace

model::ResourceSpec ContainerResources(const corev1::Pod& pod, const corev1::Container& container,
                                       const NodeEnvironment& node) {
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
  out.oom_score_adj = kube::OomScoreAdjust(pod, container, node.memory_capacity_bytes);
  const int64_t request = kube::MemoryBytes(kube::Requests(container)).value_or(0);
  if (node.memory.limited_swap && kube::MaySwap(pod, container)) {
    out.swap_limit_bytes = SwapLimit(request, node);
  }
  if (node.memory.qos) {
    const int64_t own_limit = kube::MemoryBytes(kube::Limits(container)).value_or(0);
    out.memory_high_bytes = MemoryHigh(request, own_limit, node);
    if (node.memory.reserves) Reserve(request, pod.spec(), out);
  }
  out.huge_pages = HugePages(limits);
  return out;
}

model::ResourceSpec PodResources(const corev1::Pod& pod, const MemoryPolicy& policy) {
  const corev1::PodSpec& spec = pod.spec();
  const kube::ResourceList limits = kube::PodLimits(spec);
  model::ResourceSpec out;
  // A BestEffort pod has the least share whatever its overhead is, as under a kubelet.
  if (kube::ComputeQosClass(spec) != model::QosClass::kBestEffort) {
    out.cpu_milli_request = kube::CpuMilli(kube::PodRequests(spec)).value_or(0);
  }
  if (kube::HasPodLimit(spec, "cpu")) out.cpu_milli_limit = kube::CpuMilli(limits);
  if (kube::HasPodLimit(spec, "memory")) out.memory_limit_bytes = kube::MemoryBytes(limits);
  if (policy.qos && policy.reserves) {
    Reserve(kube::MemoryBytes(kube::PodRequests(spec)).value_or(0), spec, out);
  }
  out.huge_pages = HugePages(limits);
  return out;
}

}  // namespace holdfast::agent
