// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/resize.h"

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

}  // namespace

ResizeVerdict JudgeResize(const ResizeWish& wish, const PodUse& use, const NodeOffer& node,
                          const NodeUse& others) {
  // An API server lets nobody ask for that; the pod's cgroup lies where its class is.
  if (kube::ComputeQosClass(wish.asked->spec()) != kube::ComputeQosClass(wish.given->spec())) {
    return {How::kInfeasible, "Pod QOS Class may not change as a result of resizing", "qos_class"};
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
