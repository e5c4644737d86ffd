// SPDX-License-Identifier: Apache-2.0
// What a pod was given of the node, beside what its spec asks for by now: the two differ from a resize until the node
// has agreed to it. Pure.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/kube/types_fwd.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// Quantities by resource, as they were written.
struct Amounts {
  std::map<std::string, std::string> requests;
  std::map<std::string, std::string> limits;
  bool operator==(const Amounts&) const = default;
};

struct Allocation {
  std::map<std::string, Amounts> containers;  // init containers too
  std::optional<Amounts> pod;                 // spec.resources, where there are some
  bool operator==(const Allocation&) const = default;
};

Allocation AllocationOf(const corev1::Pod& pod);

// By value: "1" is "1000m".
bool IsSame(const Amounts& a, const Amounts& b);
bool IsSame(const Allocation& a, const Allocation& b);

// The pod as the node runs it: with what it was given in the place of what it asks for. The same object where that is
// the same.
std::shared_ptr<const corev1::Pod> WithAllocation(const std::shared_ptr<const corev1::Pod>& pod,
                                                  const Allocation& allocation);

// cpu and memory as the cgroup of a container has them: the pod's limits where it has none.
Amounts EffectiveAmounts(const corev1::Pod& pod, const corev1::Container& container);
// The same of the pod's own cgroup: the sum over its containers, or what is asked for all of them; a limit only where
// the cgroup has one.
Amounts PodAmounts(const corev1::Pod& pod);

}  // namespace holdfast::agent
