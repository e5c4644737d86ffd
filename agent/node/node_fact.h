// SPDX-License-Identifier: Apache-2.0
// What others need to know of a Node object. Pure.
#pragma once

#include "agent/node/node_view.h"
#include "k8s/core/v1/node.pb.h"

namespace holdfast::agent {

// Ranges that are none are left out.
NodeFact FactOf(const k8s::io::api::core::v1::Node& node);

}  // namespace holdfast::agent
