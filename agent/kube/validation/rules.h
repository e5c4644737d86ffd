// SPDX-License-Identifier: Apache-2.0
// The rules by subject; each function checks one part of an object and appends to the report.
// Internal to the validation. Pure but for the report.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "agent/kube/types_fwd.h"
#include "agent/kube/validation/report.h"

namespace k8s::io::api::core::v1 {
class Affinity;
class EnvFromSource;
class EnvVar;
class EphemeralContainer;
class Lifecycle;
class PodSecurityContext;
class Probe;
class SecurityContext;
class Volume;
class VolumeMount;
class VolumeSource;
}  // namespace k8s::io::api::core::v1

namespace k8s::io::apimachinery::pkg::apis::meta::v1 {
class LabelSelector;
}  // namespace k8s::io::apimachinery::pkg::apis::meta::v1

namespace holdfast::agent::kube {

// metadata.cc
void CheckObjectMeta(const metav1::ObjectMeta& metadata, const std::string& path, Report* report);
void CheckLabels(const std::map<std::string, std::string>& labels, const std::string& path,
                 Report* report);
template <class Map>
std::map<std::string, std::string> Sorted(const Map& map) {
  return {map.begin(), map.end()};
}

}  // namespace holdfast::agent::kube
