// SPDX-License-Identifier: Apache-2.0
// ApiPodInputs: the PodInputs of a node that has joined a cluster. What is asked runs on the API thread; what is known
// lies behind a lock, per pod, for readers on any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/cluster/api.h"
#include "agent/objects/pod_inputs.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

struct ApiPodInputsOptions {
  size_t most_watches = 300;  // of single objects; what is above is asked for from time to time
  // What PodInputs::ServiceVariables() answers; none: not read yet. Thread-safe.
  std::function<std::optional<std::vector<std::string>>(const std::string& ns, bool links)>
      service_variables;
};

class ApiPodInputs : public PodInputs {
 public:
  // `api` and `clock` outlive it. It is destroyed on the API thread or after that has ended.
  ApiPodInputs(Api& api, const Clock& clock, ApiPodInputsOptions options);
  ~ApiPodInputs() override;

  void Acquire(std::shared_ptr<const corev1::Pod> pod) override;
  void Release(const PodUid& uid) override;
  void Refresh(const PodUid& uid) override;
  ObjectInput Object(const PodUid& uid, const ObjectRef& ref) const override;
  TokenInput Token(const PodUid& uid, const std::string& audience,
                   std::chrono::seconds life) const override;
  std::optional<std::vector<std::string>> ServiceVariables(const PodUid& uid, const std::string& ns,
                                                           bool links) const override;
  uint64_t VersionOf(const PodUid& uid) const override;
  void SetListener(std::function<void(const PodUid&)> changed) override;
  // The options' service_variables answers from now on: who waited for it is told. On the API thread.
  void ServicesKnown();

 private:
  class Core;
  const std::shared_ptr<Core> core_;  // what was posted finds it gone, or keeps it until it returns
};

}  // namespace holdfast::agent
