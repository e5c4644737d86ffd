// SPDX-License-Identifier: Apache-2.0
// The files of a pod's configMap, secret, downwardAPI and projected volumes: from its spec, itself and what the API
// server has. Pure.
#pragma once

#include <vector>

#include "agent/objects/pod_inputs.h"
#include "agent/pod/spec/node_environment.h"
#include "agent/volume/volume_file.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

struct BuiltVolumes {
  VolumeContents contents;
  // Of each volume that cannot be built the message of a FailedMount event: kNotFound for what is missing, kUnavailable
  // for what could not be read (yet). A pod does not start with one; of a pod that runs, the others go on changing.
  std::vector<Error> errors;
};
BuiltVolumes BuildVolumeContents(const corev1::Pod& pod, const PodInputs& inputs,
                                 const NodeEnvironment& node);

}  // namespace holdfast::agent
