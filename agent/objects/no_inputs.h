// SPDX-License-Identifier: Apache-2.0
// NoInputs: there is no object and no token, and no Service tells of itself. Thread-safe: no state.
#pragma once

#include <string>
#include <vector>

#include "agent/objects/pod_inputs.h"
#include "agent/objects/references.h"

namespace holdfast::agent {

class NoInputs : public PodInputs {
 public:
  void Acquire(std::shared_ptr<const corev1::Pod> /*pod*/) override {}
  void Release(const PodUid& /*uid*/) override {}
  void Refresh(const PodUid& /*uid*/) override {}
  ObjectInput Object(const PodUid& /*uid*/, const ObjectRef& ref) const override {
    return {InputState::kAbsent, nullptr, NotFoundText(ref)};
  }
  TokenInput Token(const PodUid& /*uid*/, const std::string& /*audience*/,
                   std::chrono::seconds /*life*/) const override {
    return {InputState::kUnavailable, nullptr, "failed to fetch token: there is no API server"};
  }
  std::optional<std::vector<std::string>> ServiceVariables(const PodUid& /*uid*/,
                                                           const std::string& /*ns*/,
                                                           bool /*links*/) const override {
    return std::vector<std::string>();
  }
  uint64_t VersionOf(const PodUid& /*uid*/) const override { return 0; }
  void SetListener(std::function<void(const PodUid&)> /*changed*/) override {}
};

}  // namespace holdfast::agent
