// SPDX-License-Identifier: Apache-2.0
// What a storage plugin is told about a pod's use of its volume: from its CSIDriver, the volume's Secrets, its
// VolumeAttachment and the pod. Pure.
#pragma once

#include <string>

#include "agent/objects/pod_inputs.h"
#include "agent/volume/persistent_volume.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

// Fills volume.csi; its source is of the kind csi. The error is the message of a FailedMount event.
Result<void> FillCsiUse(const ::k8s::io::api::core::v1::Pod& pod, const PodInputs& inputs,
                        const std::string& node_name, PersistentVolume& volume);

// A volume of the kind csi that the pod names itself.
PersistentVolume EphemeralCsiVolume(const ::k8s::io::api::core::v1::Pod& pod,
                                    const ::k8s::io::api::core::v1::Volume& volume);

}  // namespace holdfast::agent
