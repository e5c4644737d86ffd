// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/decide/allocation.h"

#include <algorithm>

#include "agent/kube/pod_resources.h"
#include "agent/kube/quantity.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

using Texts = std::map<std::string, std::string>;

constexpr const char* kResizable[] = {"cpu", "memory"};

Amounts AmountsOf(const corev1::ResourceRequirements& resources) {
  Amounts amounts;
  for (const auto& [name, quantity] : resources.requests()) {
    amounts.requests[name] = quantity.string();
  }
  for (const auto& [name, quantity] : resources.limits()) amounts.limits[name] = quantity.string();
  return amounts;
}

void Write(const Amounts& amounts, corev1::ResourceRequirements* out) {
  out->clear_requests();
  out->clear_limits();
  for (const auto& [name, text] : amounts.requests) {
    (*out->mutable_requests())[name].set_string(text);
  }
  for (const auto& [name, text] : amounts.limits) (*out->mutable_limits())[name].set_string(text);
}

bool IsSameList(const Texts& a, const Texts& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    if (one.first != other.first) return false;
    if (one.second == other.second) return true;
    const auto left = kube::Amount::Parse(one.second);
    const auto right = kube::Amount::Parse(other.second);
    return left && right && *left == *right;
  });
}

}  // namespace

Allocation AllocationOf(const corev1::Pod& pod) {
  Allocation allocation;
  for (const auto* list : {&pod.spec().initcontainers(), &pod.spec().containers()}) {
    for (const corev1::Container& container : *list) {
      allocation.containers[container.name()] = AmountsOf(container.resources());
    }
  }
  if (pod.spec().has_resources()) allocation.pod = AmountsOf(pod.spec().resources());
  return allocation;
}

bool IsSame(const Amounts& a, const Amounts& b) {
  return IsSameList(a.requests, b.requests) && IsSameList(a.limits, b.limits);
}

bool IsSame(const Allocation& a, const Allocation& b) {
  if (a.pod.has_value() != b.pod.has_value() || (a.pod && !IsSame(*a.pod, *b.pod))) return false;
  return std::ranges::equal(a.containers, b.containers, [](const auto& one, const auto& other) {
    return one.first == other.first && IsSame(one.second, other.second);
  });
}

std::shared_ptr<const corev1::Pod> WithAllocation(const std::shared_ptr<const corev1::Pod>& pod,
                                                  const Allocation& allocation) {
  if (IsSame(AllocationOf(*pod), allocation)) return pod;
  auto given = std::make_shared<corev1::Pod>(*pod);
  corev1::PodSpec* const spec = given->mutable_spec();
  for (auto* list : {spec->mutable_initcontainers(), spec->mutable_containers()}) {
    for (corev1::Container& container : *list) {
      const auto amounts = allocation.containers.find(container.name());
      if (amounts == allocation.containers.end()) continue;
      Write(amounts->second, container.mutable_resources());
    }
  }
  if (allocation.pod) {
    Write(*allocation.pod, spec->mutable_resources());
  } else {
    spec->clear_resources();
  }
  return given;
}

Amounts EffectiveAmounts(const corev1::Pod& pod, const corev1::Container& container) {
  const kube::ResourceList limits = kube::EffectiveLimits(pod.spec(), container);
  const kube::ResourceList requests = kube::Requests(container);
  Amounts amounts;
  for (const char* name : kResizable) {
    if (const auto it = requests.find(name); it != requests.end()) {
      amounts.requests[name] = it->second.ToString();
    }
    if (const auto it = limits.find(name); it != limits.end()) {
      amounts.limits[name] = it->second.ToString();
    }
  }
  return amounts;
}

Amounts PodAmounts(const corev1::Pod& pod) {
  const kube::ResourceList limits = kube::PodLimits(pod.spec());
  const kube::ResourceList requests = kube::PodRequests(pod.spec());
  Amounts amounts;
  for (const char* name : kResizable) {
    if (const auto it = requests.find(name); it != requests.end()) {
      amounts.requests[name] = it->second.ToString();
    }
    const auto limit = limits.find(name);
    if (limit != limits.end() && kube::HasPodLimit(pod.spec(), name)) {
      amounts.limits[name] = limit->second.ToString();
    }
  }
  return amounts;
}

}  // namespace holdfast::agent
