// SPDX-License-Identifier: Apache-2.0
// StaticPodInputs: the PodInputs of static pods, which an API server's objects are not for: there are only the variables
// of its Services. Static pods do not wait for these: on a node that has not heard of any yet there are none, as a
// kubelet does it, since what the Services come from may be a static pod. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/objects/no_inputs.h"

namespace holdfast::agent {

class StaticPodInputs : public NoInputs {
 public:
  // Answers of its Services; outlives this.
  explicit StaticPodInputs(const PodInputs& cluster) : cluster_(cluster) {}

  std::optional<std::vector<std::string>> ServiceVariables(const PodUid& uid,
                                                           const std::string& of_namespace,
                                                           bool links) const override {
    return cluster_.ServiceVariables(uid, of_namespace, links).value_or(std::vector<std::string>());
  }

 private:
  const PodInputs& cluster_;
};

}  // namespace holdfast::agent
