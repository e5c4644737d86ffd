// SPDX-License-Identifier: Apache-2.0
// The PersistentVolumes that a pod's claims are bound to, and what it names itself of the same kinds, with a kubelet's checks
// and its words. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/objects/pod_inputs.h"
#include "agent/volume/persistent_volume.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

struct ClaimedVolumes {
  PersistentVolumes volumes;
  // By the volume's name in the pod: the message of a FailedMount event.
  std::map<std::string, Error> errors;
};

// `labels`: the node's, as the API server has them. Volumes in `standing` are mounted for the pod already: a claim that is
// being deleted does not matter to them any more.
ClaimedVolumes BuildClaimedVolumes(const corev1::Pod& pod, const PodInputs& inputs,
                                   const std::string& node_name,
                                   const std::map<std::string, std::string>& labels,
                                   const std::vector<std::string>& standing);

}  // namespace holdfast::agent
