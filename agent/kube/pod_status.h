// SPDX-License-Identifier: Apache-2.0
// What of a pod's status is the node's to write, and what it says about the pod's life (control-plane.md 5.3). Pure;
// thread-safe.
#pragma once

#include <string_view>

#include "agent/kube/types_fwd.h"

namespace holdfast::agent::kube {

// Of this condition the node is one writer among several, and takes nobody's away.
inline constexpr char kDisruptionTarget[] = "DisruptionTarget";
// Whether the condition of that type is the node's alone.
bool IsNodeCondition(std::string_view type);

// "Succeeded" and "Failed" are never left again.
bool IsTerminalPhase(std::string_view phase);

}  // namespace holdfast::agent::kube
