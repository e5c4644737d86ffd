// SPDX-License-Identifier: Apache-2.0
// The end state of a pod, from its spec and from how its containers ended: written from Kubernetes' documentation
// (restart policies, phases, deletion), without anything of agent/pod/decide or agent/kube.
#pragma once

#include <string>

namespace holdfast::agent::orders {

class World;

// Of a world that has come to rest: "" or in what it differs from the model.
std::string CompareWithModel(const World& world);

}  // namespace holdfast::agent::orders
