// SPDX-License-Identifier: Apache-2.0
#include "agent/source/snapshot_difference.h"

#include "agent/source/object_name.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

// False when not all are at the place of one of the same name.
template <class Desired>
bool Collect(const std::vector<Desired>& before, const std::vector<Desired>& after,
             std::vector<const Desired*>& renewed) {
  if (before.size() != after.size()) return false;
  for (size_t i = 0; i < after.size(); ++i) {
    if (before[i].object == after[i].object) continue;
    if (!HasSameName(*before[i].object, *after[i].object)) return false;
    renewed.push_back(&after[i]);
  }
  return true;
}

}  // namespace

std::optional<RenewedObjects> FindRenewed(const PodSnapshot& before, const PodSnapshot& after) {
  RenewedObjects renewed;
  if (!Collect(before.services, after.services, renewed.services)) return std::nullopt;
  if (!Collect(before.slices, after.slices, renewed.slices)) return std::nullopt;
  return renewed;
}

}  // namespace holdfast::agent
