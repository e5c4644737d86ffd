// SPDX-License-Identifier: Apache-2.0
// Whether the node gives a pod that it runs other amounts, and in which order it answers those that wait. Pure.
// Source: feature-map 1.9; kubelet 1.36.
#pragma once

#include <memory>
#include <string>

#include "agent/pod/admit/node_offer.h"
#include "agent/pod/admit/node_use.h"
#include "agent/pod/decide/types.h"

namespace holdfast::agent {

// A pod that asks for other amounts than it was given.
struct ResizeWish {
  std::shared_ptr<const corev1::Pod> asked;
  std::shared_ptr<const corev1::Pod> given;
  WallTime since;  // when it began to wait; zero: it has not
};

// `others`: what the other pods take.
ResizeVerdict JudgeResize(const ResizeWish& wish, const PodUse& use, const NodeOffer& node,
                          const NodeUse& others);

// Whether `a` is answered before `b`: one that asks for no more first, then by priority, QoS class (Guaranteed first)
// and how long they wait. A strict weak order.
bool ComesBefore(const ResizeWish& a, const ResizeWish& b);

}  // namespace holdfast::agent
