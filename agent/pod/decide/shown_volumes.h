// SPDX-License-Identifier: Apache-2.0
// What files of a pod's volumes show of the pod itself (downwardAPI): they are written again when it changes. Pure.
#pragma once

#include <string>

#include "agent/kube/types_fwd.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// Another text for other labels, annotations or amounts of containers; "" when no file shows any of it.
std::string ShownByVolumes(const corev1::Pod& pod);

}  // namespace holdfast::agent
