// SPDX-License-Identifier: Apache-2.0
// The files of a pod's configMap, secret, downwardAPI and projected volumes: from its spec, itself and what the API
// server has. Pure.
#pragma once

#include "agent/objects/pod_inputs.h"
#include "agent/pod/spec/node_environment.h"
#include "agent/volume/volume_file.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// Of all volumes of these kinds. The error is the message of a FailedMount event: kNotFound for what is missing,
// kUnavailable for what could not be read (yet).
Result<VolumeContents> BuildVolumeContents(const corev1::Pod& pod, const PodInputs& inputs,
                                           const NodeEnvironment& node);

// True for these kinds.
bool HasWrittenFiles(const corev1::VolumeSource& source);

}  // namespace holdfast::agent
