// SPDX-License-Identifier: Apache-2.0
// The RuntimeClass that a pod names. There is one runtime here, so a class counts by its handler: one of those that mean
// this runtime, or none that is there. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/objects/pod_inputs.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// Whether the class is asked for and not answered: the sandbox waits for it.
bool RuntimeClassIsPending(const corev1::Pod& pod, const PodInputs& inputs);

// kNotFound for a class that is not there, kUnavailable while it cannot be read, kUnsupported for a handler that is none
// of `handlers`; in the words of a kubelet and of containerd.
Result<void> CheckRuntimeClass(const corev1::Pod& pod, const PodInputs& inputs,
                               const std::vector<std::string>& handlers);

}  // namespace holdfast::agent
