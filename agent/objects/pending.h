// SPDX-License-Identifier: Apache-2.0
// Whether a pod still waits for something that the API server has. Pure; thread-safe.
#pragma once

#include "agent/kube/types_fwd.h"
#include "agent/objects/pod_inputs.h"

namespace holdfast::agent {

// True while an object, a token or the Services' variables were asked for and not answered. What is absent or cannot be
// had is an answer.
bool ArePending(const corev1::Pod& pod, const PodInputs& inputs);

}  // namespace holdfast::agent
