// SPDX-License-Identifier: Apache-2.0
// Which sysctls a pod may set: those that are its own namespaces' and safe for others, and those
// that the node's configuration allows beside them. Pure. Source: feature-map 1.10.6.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// What is wrong with the first that is not allowed, in a kubelet's words; "" when all are.
// Separators may be dots or slashes.
std::string ForbiddenSysctl(const corev1::PodSpec& spec, const std::vector<std::string>& allowed);

}  // namespace holdfast::agent
