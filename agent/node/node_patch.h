// SPDX-License-Identifier: Apache-2.0
// What of the Node differs from what it ought to be, as a strategic merge patch of nodes/status. Pure. Source:
// control-plane.md 3.9, 4.2, 4.6; join.md, traps 45 and 48.
#pragma once

#include <string>

#include "k8s/core/v1/node.pb.h"

namespace holdfast::agent {

struct NodePatch {
  std::string body;      // "" when nothing differs
  bool changes = false;  // more than the times of heartbeats
};

// From the Node that the server has to our labels, annotations and status. What is not ours stays: other labels,
// others' conditions, resources that somebody advertised, taints, the whole spec. A label
// of ours that is no longer wanted goes. `sent`: the status that was sent last to this Node, nullptr before the first;
// a field that the server dropped is not sent to it again.
NodePatch PatchNode(const k8s::io::api::core::v1::Node& server,
                    const k8s::io::api::core::v1::Node& ours,
                    const k8s::io::api::core::v1::NodeStatus* sent);

}  // namespace holdfast::agent
