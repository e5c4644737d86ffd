// SPDX-License-Identifier: Apache-2.0
// What kind of volume a source is. Pure.
#pragma once

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {

// configMap, secret, downwardAPI, projected: the agent writes the files, containers only read them.
inline bool HasWrittenFiles(const k8s::io::api::core::v1::VolumeSource& source) {
  return source.has_configmap() || source.has_secret() || source.has_downwardapi() ||
         source.has_projected();
}

}  // namespace holdfast::agent::kube
