// SPDX-License-Identifier: Apache-2.0
// The EndpointSlices of a Service from the pods of this node, as the endpoint slice controller
// would write them for pods of the cluster. Pure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/kube/types_fwd.h"
#include "agent/proxy/convert.h"
#include "agent/proxy/service_view.h"
#include "agent/view/pod_view.h"

namespace holdfast::agent {

// Whether the service selects by labels at all, and this pod. A service without a selector has the
// slices that somebody wrote for it.
bool HasSelector(const corev1::Service& service);
bool Selects(const corev1::Service& service, const corev1::Pod& pod);

// `pods`: of any namespace, by name. One slice per family and set of port numbers: named target
// ports may differ between pods. Pods that have ended, and those without an address, are left out.
//   ready        Ready condition and not terminating, or publishNotReadyAddresses
//   serving      Ready condition
//   terminating  deletionTimestamp is set
// Where the node's zone is known endpoints bear it; hints follow trafficDistribution.
std::vector<SlicePtr> LocalSlices(const corev1::Service& service, const std::vector<PodPtr>& pods,
                                  const NodeIdentity& node);

}  // namespace holdfast::agent
