// SPDX-License-Identifier: Apache-2.0
// The Node object, as a kubelet describes its node: the same labels, conditions, reasons and messages. Pure.
// Source: control-plane.md 4.2 to 4.5.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/node/node_description.h"
#include "agent/node/node_readiness.h"
#include "holdfast/base/clock.h"
#include "k8s/core/v1/node.pb.h"

namespace holdfast::agent {

// What a Node is given only when it is made.
struct NodeRegistration {
  std::vector<k8s::io::api::core::v1::Taint> taints;  // registerWithTaints
  std::string provider_id;
};

// In the order in which they are shown. Others belong to other programs.
inline constexpr std::string_view kOwnConditions[] = {"MemoryPressure", "DiskPressure",
                                                      "PIDPressure", "Ready"};

// nullptr when there is none of that type.
const k8s::io::api::core::v1::NodeCondition* FindCondition(
    const k8s::io::api::core::v1::NodeStatus& status, std::string_view type);

// The status that this node has now. `before` is what was shown: the times of conditions that are the same are kept, and
// so are resources that somebody else advertises. Without `ready` that condition is as before.
k8s::io::api::core::v1::NodeStatus BuildNodeStatus(const NodeDescription& facts,
                                                   const std::optional<ReadyState>& ready,
                                                   const k8s::io::api::core::v1::NodeStatus& before,
                                                   WallTime now);

// Labels and annotations that this node keeps in order on its Node.
k8s::io::apimachinery::pkg::apis::meta::v1::ObjectMeta BuildNodeMeta(const NodeDescription& facts);
// An annotation: the keys of the labels that the configuration gave the Node, with commas between.
inline constexpr char kLabelsAnnotation[] = "holdfast.dev/labels";

// The whole Node, to be registered.
k8s::io::api::core::v1::Node BuildNode(const NodeDescription& facts,
                                       const NodeRegistration& registration,
                                       const ReadyState& ready, WallTime now);

// "NodeHasSufficientMemory", "NodeNotReady", …: the reason of the event about that condition.
std::string ConditionEvent(const k8s::io::api::core::v1::NodeCondition& condition);

}  // namespace holdfast::agent
