// SPDX-License-Identifier: Apache-2.0
// Keys of annotations that objects of every kind may have.
#pragma once

namespace holdfast::agent::kube {

// The object as `kubectl apply` was given it, a Secret with its values.
inline constexpr char kLastAppliedConfiguration[] =
    "kubectl.kubernetes.io/last-applied-configuration";

}  // namespace holdfast::agent::kube
