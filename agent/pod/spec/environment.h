// SPDX-License-Identifier: Apache-2.0
// The environment of a container: the image's variables, those of Services, then the pod's, with
// values of ConfigMaps, Secrets, files in volumes and the downward API and $(NAME) references. Pure, but for the reader of
// files that it is given.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/objects/pod_inputs.h"
#include "agent/pod/spec/node_environment.h"
#include "agent/volume/volume_place.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

struct Environment {
  std::vector<std::string> list;              // "NAME=value": image first, one entry per name
  std::map<std::string, std::string> of_pod;  // what command and args may refer to
};

// The text of a file in the volume that lies at `volume`. Not asked for what nothing refers to.
using VolumeTextReader =
    std::function<Result<std::string>(const std::string& volume, const std::string& path)>;

struct VolumeTexts {
  const VolumePlaces& places;
  const VolumeTextReader& read;
};

// Fails with Kubernetes' words for a source that cannot be read (CreateContainerConfigError);
// kUnavailable: it may be read later.
Result<Environment> BuildEnvironment(const corev1::Pod& pod, const corev1::Container& container,
                                     const std::vector<std::string>& image_env,
                                     const NodeEnvironment& node,
                                     const std::vector<std::string>& pod_ips,
                                     const PodInputs& inputs, const VolumeTexts& texts);

}  // namespace holdfast::agent
