// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/resize.h"

#include <algorithm>
#include <tuple>

#include "agent/kube/pod_resources.h"
#include "agent/pod/admit/admit.h"

namespace holdfast::agent {
namespace {

using How = ResizeVerdict::How;

bool AsksForMore(const ResizeWish& wish) {
  const kube::ResourceList asked = kube::PodRequests(wish.asked->spec());
  const kube::ResourceList given = kube::PodRequests(wish.given->spec());
  return kube::CpuMilli(asked).value_or(0) > kube::CpuMilli(given).value_or(0) ||
         kube::MemoryBytes(asked).value_or(0) > kube::MemoryBytes(given).value_or(0);
}

bool WantsRestart(const corev1::Container& container) {
  return std::ranges::any_of(container.resizepolicy(), [](const auto& policy) {
    return policy.resourcename() == "memory" && policy.restartpolicy() == "RestartContainer";
  });
}

// What a container may swap follows its request: of one that goes on running that is not changed, as by a kubelet.
bool ChangesSwap(const corev1::Pod& asked, const corev1::Pod& given) {
  const auto changes = [&](const auto& fresh, const auto& olds) {
    for (const corev1::Container& now : fresh) {
      for (const corev1::Container& old : olds) {
        const bool same = now.name() != old.name() || kube::MemoryBytes(kube::Requests(now)) ==
                                                          kube::MemoryBytes(kube::Requests(old));
        if (same || WantsRestart(old)) continue;
        if (kube::MaySwap(asked, now) || kube::MaySwap(given, old)) return true;
      }
    }
    return false;
  };
  return changes(asked.spec().containers(), given.spec().containers()) ||
         changes(asked.spec().initcontainers(), given.spec().initcontainers());
}

}  // namespace

ResizeVerdict JudgeResize(const ResizeWish& wish, const PodUse& use, const NodeOffer& node,
                          const NodeUse& others) {
  // An API server lets nobody ask for that; the pod's cgroup lies where its class is.
  if (kube::ComputeQosClass(wish.asked->spec()) != kube::ComputeQosClass(wish.given->spec())) {
    return {How::kInfeasible, "Pod QOS Class may not change as a result of resizing", "qos_class"};
  }
  if (node.limited_swap && ChangesSwap(*wish.asked, *wish.given)) {
    return {How::kInfeasible, "In-place resize of containers with swap is not supported.",
            "swap_limitation"};
  }
  Admission verdict = Admit(*wish.asked, use, node, others);
  if (verdict.admitted()) return {};
  return {How::kDeferred, std::move(verdict.message)};
}

bool ComesBefore(const ResizeWish& a, const ResizeWish& b) {
  const auto rank = [](const ResizeWish& wish) {
    const corev1::PodSpec& spec = wish.asked->spec();
    const bool guaranteed = kube::ComputeQosClass(spec) == model::QosClass::kGuaranteed;
    // Who has not waited yet comes after those that have.
    return std::tuple(AsksForMore(wish), -int64_t{spec.priority()}, !guaranteed,
                      wish.since.IsZero(), wish.since.since_epoch.count());
  };
  return rank(a) < rank(b);
}

}  // namespace holdfast::agent
