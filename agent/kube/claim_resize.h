// SPDX-License-Identifier: Apache-2.0
// A claim whose volume has been given more room: whether its file system is still to grow on a node, and what a node writes
// into the claim's status about that, as strategic merge patches. Pure; thread-safe. Source: kubelet 1.36 (volume expansion with
// recovery from failure); feature-map 1.17.
#pragma once

#include <string>

#include "holdfast/base/clock.h"
#include "k8s/core/v1/persistent_volume.pb.h"

namespace holdfast::agent::kube {

using Claim = ::k8s::io::api::core::v1::PersistentVolumeClaim;

bool AwaitsNodeResize(const Claim& claim);
// How large it is going to be; a quantity.
std::string SizeToBe(const Claim& claim);

// A node has begun with it; "" when the claim says that already.
std::string ResizeBegun(const Claim& claim);
// The claim has its new size. `version`: the resource version of the claim that was seen last.
std::string ResizeDone(const Claim& claim, const std::string& version);
// `infeasible`: no node is to try that size again. "" when the claim says it already.
std::string ResizeFailed(const Claim& claim, const std::string& why, bool infeasible, WallTime now);

}  // namespace holdfast::agent::kube
