// SPDX-License-Identifier: Apache-2.0
// Whether a pod has written more than it may: sizeLimit of an emptyDir, and limits of ephemeral-storage. Pure.
// Source: kubelet 1.36, pkg/kubelet/eviction (localStorageEviction); feature-map 1.11.11.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "agent/pod/decide/types.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

// Bytes on the disk, by name; what is not known is not there.
struct StorageUse {
  std::map<std::string, uint64_t> containers;  // layer and logs, of those that run
  std::map<std::string, uint64_t> empty_dirs;
};

// It has any such limit: what it writes has to be counted.
bool HasStorageLimits(const k8s::io::api::core::v1::PodSpec& spec);

// Why it has to go, in a kubelet's words (with their space at the end); nullopt: it does not. Volumes first, then the
// pod as a whole, then its containers.
std::optional<Eviction> AboveStorageLimits(const k8s::io::api::core::v1::PodSpec& spec,
                                           const StorageUse& use);

}  // namespace holdfast::agent
