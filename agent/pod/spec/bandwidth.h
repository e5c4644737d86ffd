// SPDX-License-Identifier: Apache-2.0
// How much of the network a pod may use: its annotations kubernetes.io/ingress-bandwidth and egress-bandwidth. Pure.
#pragma once

#include "holdfast/base/result.h"
#include "holdfast/interfaces/pod_network.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// kInvalidArgument for what is no quantity, or is not from 1k to 1P bits per second.
Result<PodBandwidth> BandwidthOf(const corev1::Pod& pod);

}  // namespace holdfast::agent
