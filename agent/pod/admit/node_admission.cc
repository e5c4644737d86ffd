// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/node_admission.h"

#include <utility>

#include "agent/pod/admit/admit.h"

namespace holdfast::agent {

NodeAdmission::NodeAdmission(std::function<std::shared_ptr<const NodeOffer>()> offer)
    : offer_(std::move(offer)) {}

Admission NodeAdmission::Admit(const corev1::Pod& pod) {
  const auto node = offer_();
  PodUse use = UseOf(pod);
  const std::lock_guard lock(mutex_);
  Admission verdict = agent::Admit(pod, use, *node, used_);
  if (verdict.admitted()) used_.Add(pod.metadata().uid(), std::move(use));
  return verdict;
}

void NodeAdmission::Adopt(const corev1::Pod& pod) {
  PodUse use = UseOf(pod);
  const std::lock_guard lock(mutex_);
  used_.Add(pod.metadata().uid(), std::move(use));
}

void NodeAdmission::Release(const std::string& uid) {
  const std::lock_guard lock(mutex_);
  used_.Remove(uid);
}

}  // namespace holdfast::agent
