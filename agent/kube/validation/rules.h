// SPDX-License-Identifier: Apache-2.0
// The rules by subject; each function checks one part of an object and appends to the report.
// Internal to the validation. Pure but for the report.
#pragma once

#include <google/protobuf/map.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "agent/kube/quantity.h"
#include "agent/kube/types_fwd.h"
#include "agent/kube/validation/report.h"

namespace k8s::io::api::core::v1 {
class DownwardAPIVolumeFile;
class EphemeralVolumeSource;
class Lifecycle;
class NodeSelector;
class ObjectFieldSelector;
class PodSecurityContext;
class ProjectedVolumeSource;
class Probe;
class ResourceFieldSelector;
class SecurityContext;
class VolumeSource;
class WindowsSecurityContextOptions;
}  // namespace k8s::io::api::core::v1

namespace k8s::io::apimachinery::pkg::api::resource {
class Quantity;
}  // namespace k8s::io::apimachinery::pkg::api::resource

namespace k8s::io::apimachinery::pkg::apis::meta::v1 {
class LabelSelector;
}  // namespace k8s::io::apimachinery::pkg::apis::meta::v1

namespace k8s::io::apimachinery::pkg::util::intstr {
class IntOrString;
}  // namespace k8s::io::apimachinery::pkg::util::intstr

namespace holdfast::agent::kube {

using QuantityMap =
    google::protobuf::Map<std::string, ::k8s::io::apimachinery::pkg::api::resource::Quantity>;
using VolumeMap = std::map<std::string, const corev1::VolumeSource*, std::less<>>;

// What the checks of a container need to know of its pod.
struct PodContext {
  const corev1::PodSpec& spec;
  VolumeMap volumes;  // those without fault
};

template <class Map>
std::map<std::string, std::string> Sorted(const Map& map) {
  return {map.begin(), map.end()};
}

// metadata.cc
// `check_name` is the rule for names of the kind.
void CheckObjectMeta(const metav1::ObjectMeta& metadata,
                     std::vector<std::string> (*check_name)(std::string_view),
                     const std::string& path, Report* report);
void CheckAnnotations(const std::map<std::string, std::string>& annotations,
                      const std::string& path, Report* report);
void CheckLabels(const std::map<std::string, std::string>& labels, const std::string& path,
                 Report* report);
void CheckLabelSelector(const metav1::LabelSelector& selector, const std::string& path,
                        Report* report);

// container.cc: containers and init containers, and what concerns several of them.
void CheckContainers(const PodContext& pod, Report* report);

// ports.cc
void CheckPorts(const corev1::Container& container, const std::string& path, Report* report);
void CheckPortReference(const ::k8s::io::apimachinery::pkg::util::intstr::IntOrString& port,
                        const std::string& path, Report* report);

// env.cc
void CheckEnv(const corev1::Container& container, const std::string& path, Report* report);
void CheckFileKeyVolumes(const PodContext& pod, const corev1::Container& container,
                         const std::string& path, Report* report);

// selectors.cc: values taken from the pod's own fields and resources.
void CheckFieldRef(const corev1::ObjectFieldSelector& selector, const Words& fields,
                   const std::string& path, Report* report);
void CheckResourceFieldRef(const corev1::ResourceFieldSelector& selector, bool needs_container,
                           const std::string& path, Report* report);

// probe.cc
void CheckProbes(const corev1::Container& container, const PodContext& pod, const std::string& path,
                 Report* report);
void CheckLifecycle(const corev1::Lifecycle& lifecycle, const PodContext& pod,
                    const std::string& path, Report* report);

// mounts.cc
void CheckMounts(const corev1::Container& container, const PodContext& pod, const std::string& path,
                 Report* report);
void CheckRelativePath(std::string_view value, const std::string& path, Report* report);
void CheckNoBacksteps(std::string_view value, const std::string& path, Report* report);
// Relative, and nothing that Kubernetes keeps for itself ("..data").
void CheckFilePath(std::string_view value, const std::string& path, Report* report);

// volumes.cc, volume_projected.cc, volume_remote.cc
VolumeMap CheckVolumes(const corev1::Pod& pod, Report* report);
void CheckFileMode(int32_t mode, const std::string& path, Report* report);
void CheckDownwardFile(const corev1::DownwardAPIVolumeFile& file, const std::string& path,
                       Report* report);
void CheckProjected(const corev1::ProjectedVolumeSource& projected, const std::string& path,
                    Report* report);
// `name` is the source that counts.
void CheckRemoteVolume(const corev1::VolumeSource& source, std::string_view name,
                       const std::string& path, Report* report);

// volume_vendor.cc
void CheckVendorVolume(const corev1::VolumeSource& source, std::string_view name,
                       const std::string& path, Report* report);

// volume_claim.cc
void CheckEphemeral(const corev1::EphemeralVolumeSource& source, const std::string& path,
                    Report* report);

// signers.cc
bool IsKubernetesSigner(std::string_view signer);
void CheckSignerName(const std::string& name, const std::string& path, Report* report);
std::vector<std::string> CheckTrustBundleName(std::string_view name);

// resources.cc
void CheckResources(const corev1::ResourceRequirements& resources, const PodContext& pod,
                    const std::string& path, Report* report);
void CheckPodResources(const corev1::PodSpec& spec, Report* report);
void CheckOverhead(const corev1::PodSpec& spec, Report* report);

// claims.cc
void CheckPodClaims(const corev1::PodSpec& spec, Report* report);
void CheckClaimNames(const corev1::ResourceRequirements& resources, const corev1::PodSpec& spec,
                     const std::string& path, Report* report);

// security.cc
void CheckSecurityContext(const corev1::SecurityContext& context, const corev1::PodSpec& spec,
                          const std::string& path, Report* report);
void CheckPodSecurity(const corev1::PodSpec& spec, Report* report);

// windows.cc: what Windows nodes know, and what a pod of one system may not have of the other's.
void CheckWindowsOptions(const corev1::WindowsSecurityContextOptions& options,
                         const std::string& path, Report* report);
void CheckHostProcess(const corev1::PodSpec& spec, Report* report);
void CheckSystem(const corev1::PodSpec& spec, Report* report);

// annotations.cc
void CheckPodAnnotations(const corev1::Pod& pod, Report* report);

// scheduling.cc
void CheckTolerations(const corev1::PodSpec& spec, Report* report);
void CheckAffinity(const corev1::Pod& pod, Report* report);
void CheckTopologySpread(const corev1::Pod& pod, Report* report);

// pod_network.cc: DNS, host names, host aliases, host ports.
void CheckPodNetwork(const corev1::PodSpec& spec, Report* report);

}  // namespace holdfast::agent::kube
