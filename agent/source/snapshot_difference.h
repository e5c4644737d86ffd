// SPDX-License-Identifier: Apache-2.0
// What the commonest change of a snapshot is: new versions of Services and EndpointSlices that were
// there before. Pure.
#pragma once

#include <optional>
#include <vector>

#include "agent/source/pod_source.h"

namespace holdfast::agent {

// Point into the newer snapshot.
struct RenewedObjects {
  std::vector<const DesiredService*> services;
  std::vector<const DesiredSlice*> slices;
};

// nullopt when an object came or went, so that the snapshots must be compared by name. Costs one
// comparison of pointers per object.
std::optional<RenewedObjects> FindRenewed(const PodSnapshot& before, const PodSnapshot& after);

}  // namespace holdfast::agent
