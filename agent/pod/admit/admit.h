// SPDX-License-Identifier: Apache-2.0
// Admit(): whether this node takes a pod, with a kubelet's order of questions, reasons and messages
// (feature-map 1.10). Pure: no I/O, no clock; the same input gives the same verdict.
//
//   1. the node's pressures      Evicted; not for critical pods
//   2. sysctls                   SysctlForbidden
//   3. claims                    UnexpectedAdmissionError
//   4. operating system          PodOSSelectorNodeLabelDoesNotMatch, PodOSNotSupported
//   5. room                      OutOfpods, OutOfcpu, OutOfmemory, OutOfephemeral-storage,
//                                OutOf<resource>
//   6. the pod's wishes          NodeAffinity
//   7. ports of the node         NodePorts
//   8. the node's taints         TaintToleration; not for static pods
//   9. AppArmor                  AppArmor
//
// A critical pod that lacks nothing but room may take that of others (preempt.h). Difference from a
// kubelet: where that would not do either, the resource is named, and not UnexpectedAdmissionError.
// Resources that are no node's (of a device plugin that is not
// there) are not counted, as with a kubelet; they are told (left_out.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/pod/admit/node_offer.h"
#include "agent/pod/admit/node_use.h"
#include "agent/pod/decide/types.h"

namespace holdfast::agent {

// Of one resource, in PodUse's units.
struct Lack {
  std::string resource;
  int64_t requested = 0;
  int64_t used = 0;
  int64_t capacity = 0;
};
// What the node has too little of for a pod, in the order in which a kubelet names it.
std::vector<Lack> LacksOf(const PodUse& use, const NodeOffer& node, const NodeUse& used);

// `used`: what the other pods take. The pod has its defaults filled in.
Admission Admit(const corev1::Pod& pod, const NodeOffer& node, const NodeUse& used);
// With UseOf(pod) at hand.
Admission Admit(const corev1::Pod& pod, const PodUse& use, const NodeOffer& node,
                const NodeUse& used);

}  // namespace holdfast::agent
