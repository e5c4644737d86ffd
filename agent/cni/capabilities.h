// SPDX-License-Identifier: Apache-2.0
// What plugins may know of a pod: CNI_ARGS, and by the name of each capability its value (runtimeConfig). Pure.
// Source: CNI's CONVENTIONS; containerd for the two names that are Kubernetes' own.
#pragma once

#include <string>

#include "agent/cni/json_text.h"
#include "holdfast/interfaces/pod_network.h"

namespace holdfast::agent::cni {

// "K8S_POD_NAMESPACE=…;…".
std::string ArgsOf(const PodNetworkRequest& request, const std::string& container_id);

// portMappings, bandwidth, dns, io.kubernetes.cri.pod-annotations and cgroupPath, those that there is something of.
// `cgroup`: the pod's, "" when it is not known.
Json CapabilitiesOf(const PodNetworkRequest& request, const std::string& cgroup);

}  // namespace holdfast::agent::cni
