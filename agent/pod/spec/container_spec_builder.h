// SPDX-License-Identifier: Apache-2.0
// Pod + image + node -> what the runtime is told. Pure, but for the reader of files that it is given.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <string>
#include <vector>

#include "agent/objects/pod_inputs.h"
#include "agent/pod/spec/environment.h"
#include "agent/pod/spec/node_environment.h"
#include "agent/pod/state/paths.h"
#include "agent/volume/volume_place.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/interfaces/image_store.h"
#include "holdfast/interfaces/pod_network.h"
#include "holdfast/model/container_spec.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

struct ContainerBuild {
  const corev1::Pod& pod;
  const corev1::Container& container;
  const Image& image;
  const NodeEnvironment& node;
  const PodPaths& paths;
  std::vector<std::string> pod_ips;
  VolumePlaces volumes;
  ContainerId id;
  uint32_t attempt = 0;
  std::map<std::string, std::string> image_volumes = {};  // place in the container -> on the node
  const PodInputs* inputs = nullptr;                      // none: there is nothing of the kind
  ContainerId target = {};                                // whose processes it sees; none: its own
  VolumeTextReader read_volume_text = {};                 // none: no volume has any
  DevicePlaces devices = {};                              // its volumes that are block devices
};

// StartFailure::Phase::kConfig for what is wrong with the pod's wishes, kCreate for an image that
// cannot be run.
std::expected<model::ContainerSpec, StartFailure> BuildContainerSpec(const ContainerBuild& build);

model::SandboxSpec BuildSandboxSpec(const corev1::Pod& pod, const NodeEnvironment& node);

std::vector<HostPort> HostPorts(const corev1::Pod& pod);

// Mounts in the order in which they must be made: volumes and managed files, outer ones first.
std::expected<std::vector<model::MountSpec>, StartFailure> BuildMounts(
    const ContainerBuild& build, const std::map<std::string, std::string>& variables);

// The block devices that the container asks for.
std::expected<std::vector<model::DeviceSpec>, StartFailure> BuildDevices(
    const ContainerBuild& build);

// The pod's and the container's securityContext merged; checks runAsNonRoot.
std::expected<void, StartFailure> FillSecurity(const ContainerBuild& build,
                                               model::ContainerSpec& spec);

}  // namespace holdfast::agent
