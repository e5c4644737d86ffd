// SPDX-License-Identifier: Apache-2.0
// Where a pod's local storage lies: writable layers, logs. Thread-safe: no state.
#pragma once

#include <optional>
#include <string>

#include "agent/pod/state/paths.h"
#include "agent/stats/tree_sizes.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

// All that the run of a container that goes on has written outside of its mounts, and into volumes that its image
// declares.
std::string WrittenLayerOf(const PodPaths& paths,
                           const k8s::io::api::core::v1::ContainerStatus& status);

// Of all its log files; nullopt when there are none. A few, by rotation.
std::optional<TreeSize> SizeOfLogs(const PodPaths& paths, const std::string& container);

}  // namespace holdfast::agent
