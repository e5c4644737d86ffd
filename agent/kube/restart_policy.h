// SPDX-License-Identifier: Apache-2.0
// What a pod's restart policies say about a container that has ended: the one place that knows them
// (map 2.4; KEP-5307 for a container's own policy and rules). Pure.
#pragma once

#include <cstdint>
#include <string>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {

// Whether a container that ended so is to be started again: its restartPolicyRules (first match),
// else its own restartPolicy, else the pod's (Always is OnFailure for init containers that are no
// sidecars). `in_init_list`: it is one of the pod's initContainers.
bool RestartsAfter(const k8s::io::api::core::v1::Pod& pod,
                   const k8s::io::api::core::v1::Container& container, bool in_init_list,
                   int32_t exit_code);

// Whether a container that ended so takes all others of the pod with it, to run from the beginning
// again: action RestartAllContainers of the first rule that matches.
bool RestartsAllAfter(const k8s::io::api::core::v1::Container& container, int32_t exit_code);
// Whether any container of the pod has such a rule.
bool CouldRestartAll(const k8s::io::api::core::v1::Pod& pod);

}  // namespace holdfast::agent::kube
