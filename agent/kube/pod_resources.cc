// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/pod_resources.h"

#include <algorithm>
#include <limits>

#include "agent/kube/pod_identity.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

using QuantityMap =
    google::protobuf::Map<std::string, ::k8s::io::apimachinery::pkg::api::resource::Quantity>;

constexpr int32_t kSystemCriticalPriority = 2'000'000'000;
constexpr int32_t kGuaranteedOomScore = -997;
constexpr int32_t kBestEffortOomScore = 1000;

ResourceList ToList(const QuantityMap& quantities) {
  ResourceList list;
  for (const auto& [name, quantity] : quantities) {
    if (auto amount = Amount::Parse(quantity.string()); amount.has_value()) list[name] = *amount;
  }
  return list;
}

void Add(ResourceList& sum, const ResourceList& list) {
  for (const auto& [name, amount] : list) sum[name] += amount;
}

void Maximize(ResourceList& most, const ResourceList& list) {
  for (const auto& [name, amount] : list) {
    const auto it = most.try_emplace(name, amount).first;
    it->second = std::max(it->second, amount);
  }
}

using ListOf = ResourceList (*)(const corev1::Container&);

ResourceList Aggregate(const corev1::PodSpec& spec, ListOf list_of) {
  ResourceList sum;
  for (const corev1::Container& container : spec.containers()) Add(sum, list_of(container));
  ResourceList sidecars;
  ResourceList most;
  for (const corev1::Container& container : spec.initcontainers()) {
    ResourceList list = list_of(container);
    if (IsSidecar(container)) {
      Add(sum, list);
      Add(sidecars, list);
      list = sidecars;
    } else {
      Add(list, sidecars);
    }
    Maximize(most, list);
  }
  Maximize(sum, most);
  return sum;
}

void Override(ResourceList& list, const QuantityMap& pod_level) {
  for (const auto& [name, amount] : ToList(pod_level)) {
    if (MayBePodLevel(name)) list[name] = amount;
  }
}

bool Positive(const ResourceList& list, std::string_view resource) {
  const auto it = list.find(resource);
  return it != list.end() && !it->second.IsZero() && !it->second.IsNegative();
}

// What QoS is judged by: cpu and memory above zero.
ResourceList QosPart(const ResourceList& list) {
  ResourceList part;
  for (const std::string_view name : {"cpu", "memory"}) {
    if (Positive(list, name)) part.emplace(name, list.find(name)->second);
  }
  return part;
}

int64_t MemoryRequest(const corev1::Container& container) {
  return MemoryBytes(Requests(container)).value_or(0);
}

// The part of a pod-level memory request that no container asks for, shared out equally.
int64_t RemainingMemoryPerContainer(const corev1::PodSpec& spec) {
  if (!spec.has_resources()) return 0;
  const auto pod = MemoryBytes(ToList(spec.resources().requests()));
  if (!pod) return 0;
  const int64_t containers = MemoryBytes(Aggregate(spec, Requests)).value_or(0);
  int64_t count = spec.containers_size();
  for (const corev1::Container& container : spec.initcontainers()) count += IsSidecar(container);
  return count == 0 ? 0 : std::max<int64_t>(*pod - containers, 0) / count;
}

int64_t SmallestRequest(const corev1::PodSpec& spec) {
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (const corev1::Container& container : spec.containers()) {
    smallest = std::min(smallest, MemoryRequest(container));
  }
  return smallest;
}

bool IsSidecarOf(const corev1::PodSpec& spec, const corev1::Container& container) {
  return std::any_of(spec.initcontainers().begin(), spec.initcontainers().end(),
                     [&](const corev1::Container& init) {
                       return init.name() == container.name() && IsSidecar(init);
                     });
}

}  // namespace

ResourceList Requests(const corev1::Container& container) {
  return ToList(container.resources().requests());
}

ResourceList Limits(const corev1::Container& container) {
  return ToList(container.resources().limits());
}

ResourceList EffectiveLimits(const corev1::PodSpec& spec, const corev1::Container& container) {
  ResourceList limits = Limits(container);
  for (const auto& [name, amount] : ToList(spec.resources().limits())) {
    if (!MayBePodLevel(name) || amount.IsZero()) continue;
    // Zero is no limit of cpu and memory, and none at all of huge pages.
    const bool own =
        name.starts_with("hugepages-") ? limits.contains(name) : Positive(limits, name);
    if (!own) limits[name] = amount;
  }
  return limits;
}

std::optional<int64_t> CpuMilli(const ResourceList& list) {
  const auto it = list.find("cpu");
  return it == list.end() ? std::nullopt : std::optional(it->second.Milli());
}

std::optional<int64_t> MemoryBytes(const ResourceList& list) {
  const auto it = list.find("memory");
  return it == list.end() ? std::nullopt : std::optional(it->second.Units());
}

bool MayBePodLevel(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-");
}

bool IsSidecar(const corev1::Container& init_container) {
  return init_container.restartpolicy() == "Always";
}

ResourceList PodRequests(const corev1::PodSpec& spec) {
  ResourceList sum = Aggregate(spec, Requests);
  Override(sum, spec.resources().requests());
  Add(sum, ToList(spec.overhead()));
  return sum;
}

ResourceList PodLimits(const corev1::PodSpec& spec) {
  ResourceList sum = Aggregate(spec, Limits);
  Override(sum, spec.resources().limits());
  // Overhead widens limits that are there; it is no limit by itself.
  for (const auto& [name, amount] : ToList(spec.overhead())) {
    if (const auto it = sum.find(name); it != sum.end()) it->second += amount;
  }
  return sum;
}

bool HasPodLimit(const corev1::PodSpec& spec, std::string_view resource) {
  if (Positive(ToList(spec.resources().limits()), resource)) return true;
  const auto limited = [&](const corev1::Container& container) {
    return Positive(Limits(container), resource);
  };
  return std::all_of(spec.containers().begin(), spec.containers().end(), limited) &&
         std::all_of(spec.initcontainers().begin(), spec.initcontainers().end(), limited);
}

model::QosClass ComputeQosClass(const corev1::PodSpec& spec) {
  ResourceList requests;
  ResourceList limits;
  bool guaranteed = true;
  const auto count = [&](const ResourceList& request, const ResourceList& limit) {
    Add(requests, QosPart(request));
    Add(limits, QosPart(limit));
    guaranteed = guaranteed && QosPart(limit).size() == 2;
  };
  if (spec.has_resources()) {
    count(ToList(spec.resources().requests()), ToList(spec.resources().limits()));
  } else {
    for (const auto& container : spec.containers()) count(Requests(container), Limits(container));
    for (const auto& container : spec.initcontainers()) {
      count(Requests(container), Limits(container));
    }
  }
  if (requests.empty() && limits.empty()) return model::QosClass::kBestEffort;
  return guaranteed && requests == limits ? model::QosClass::kGuaranteed
                                          : model::QosClass::kBurstable;
}

std::string_view QosClassName(model::QosClass qos) {
  switch (qos) {
    case model::QosClass::kGuaranteed:
      return "Guaranteed";
    case model::QosClass::kBurstable:
      return "Burstable";
    case model::QosClass::kBestEffort:
      return "BestEffort";
  }
  return "BestEffort";
}

bool IsStaticPod(const corev1::Pod& pod) {
  const auto& annotations = pod.metadata().annotations();
  const auto source = annotations.find(kConfigSourceAnnotation);
  return source != annotations.end() && source->second != "api";
}

bool IsCriticalPod(const corev1::Pod& pod) {
  return IsStaticPod(pod) || pod.metadata().annotations().contains(kConfigMirrorAnnotation) ||
         pod.spec().priority() >= kSystemCriticalPriority;
}

bool MaySwap(const corev1::Pod& pod, const corev1::Container& container) {
  if (IsCriticalPod(pod) || ComputeQosClass(pod.spec()) != model::QosClass::kBurstable)
    return false;
  const auto requested = MemoryBytes(Requests(container)).value_or(0);
  return requested != MemoryBytes(Limits(container)).value_or(0);
}

int32_t OomScoreAdjust(const corev1::Pod& pod, const corev1::Container& container,
                       int64_t node_memory_bytes) {
  const corev1::PodSpec& spec = pod.spec();
  const bool node_critical =
      IsCriticalPod(pod) && spec.priorityclassname() == "system-node-critical";
  const model::QosClass qos = ComputeQosClass(spec);
  if (node_critical || qos == model::QosClass::kGuaranteed) return kGuaranteedOomScore;
  if (qos == model::QosClass::kBestEffort || node_memory_bytes <= 0) return kBestEffortOomScore;
  const int64_t remaining = RemainingMemoryPerContainer(spec);
  const auto score = [&](int64_t request) {
    // In 128 bits: a request may be as large as 2^63.
    __extension__ using Wide = __int128;
    return 1000 - static_cast<int64_t>(std::clamp<Wide>(
                      Wide{1000} * (Wide{request} + remaining) / node_memory_bytes, 0, 1000));
  };
  int64_t adjust = score(MemoryRequest(container));
  if (IsSidecarOf(spec, container)) adjust = std::min(adjust, score(SmallestRequest(spec)));
  return static_cast<int32_t>(std::clamp<int64_t>(adjust, 1000 + kGuaranteedOomScore, 999));
}

}  // namespace holdfast::agent::kube
