// SPDX-License-Identifier: Apache-2.0
// Whether a pod may be on a node by what it says about nodes: nodeSelector and the required terms
// of its node affinity, with Kubernetes' meaning of each operator; and taints. Pure.
#pragma once

#include "agent/pod/admit/node_offer.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

bool MatchesNode(const corev1::PodSpec& spec, const NodeOffer& node);

bool Tolerates(const corev1::PodSpec& spec, const corev1::Taint& taint);
// False when a taint with effect NoExecute is not tolerated: the only one a node agent looks at.
bool ToleratesNode(const corev1::PodSpec& spec, const NodeOffer& node);

}  // namespace holdfast::agent
