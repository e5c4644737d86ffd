// SPDX-License-Identifier: Apache-2.0
// What a new version of a pod with the same UID means for the one that runs. Pure; thread-safe.
#pragma once

#include <cstdint>

namespace k8s::io::api::core::v1 {
class Pod;
}

namespace holdfast::agent {

enum class PodChangeKind : uint8_t {
  kNone,     // the same but for what only bookkeeping writes (config.seen, resourceVersion, status)
  kInPlace,  // what an API server lets one change of a pod: it is taken over while the pod runs
  kReplaced,  // anything else: another pod that happens to have the same UID
};

PodChangeKind ComparePods(const k8s::io::api::core::v1::Pod& before,
                          const k8s::io::api::core::v1::Pod& after);

}  // namespace holdfast::agent
