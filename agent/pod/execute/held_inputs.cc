// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/held_inputs.h"

#include <utility>

#include "agent/objects/pod_inputs.h"

namespace holdfast::agent {

void HeldInputs::Acquire(std::shared_ptr<const corev1::Pod> pod) {
  if (inputs_ == nullptr) return;
  inputs_->Acquire(pod);
  pod_ = std::move(pod);
}

void HeldInputs::Renew(std::shared_ptr<const corev1::Pod> pod) {
  if (held()) Acquire(std::move(pod));
}

void HeldInputs::Refresh() const {
  if (held()) inputs_->Refresh(PodUid(pod_->metadata().uid()));
}

void HeldInputs::Release() {
  if (const auto pod = std::exchange(pod_, nullptr)) {
    inputs_->Release(PodUid(pod->metadata().uid()));
  }
}

}  // namespace holdfast::agent
