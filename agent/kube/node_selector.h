// SPDX-License-Identifier: Apache-2.0
// Whether a node is one that a NodeSelector means, with Kubernetes' meaning of each operator. Pure.
#pragma once

#include <map>
#include <string>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {

// True when one of its terms matches; a term without any wish matches no node.
bool MatchesNode(const k8s::io::api::core::v1::NodeSelector& selector, const std::string& name,
                 const std::map<std::string, std::string>& labels);

}  // namespace holdfast::agent::kube
