// SPDX-License-Identifier: Apache-2.0
// How what a pod needs of the API server stands, and its values. Pure.
#pragma once

#include <memory>
#include <string>

#include "agent/objects/references.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// Null for an optional object that is absent. kNotFound for another one; kUnavailable for what could not be read (yet),
// also of an optional one: it may be there.
Result<std::shared_ptr<const ObjectData>> ObjectOf(const PodInputs& inputs, const PodUid& uid,
                                                   const ObjectRef& ref, bool optional);

// Whether everything that is asked for has been answered: kPending when an answer is still to come, then kUnavailable
// with the first reason, else kPresent. What is absent is an answer.
struct InputsState {
  InputState state = InputState::kPresent;
  std::string why;
};
// What the pod's volumes need.
InputsState VolumeInputs(const corev1::Pod& pod, const PodReferences& references,
                         const PodInputs& inputs);
// What the environments of its containers need, and the variables of Services.
InputsState EnvironmentInputs(const corev1::Pod& pod, const PodReferences& references,
                              const PodInputs& inputs);

}  // namespace holdfast::agent
