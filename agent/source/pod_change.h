// SPDX-License-Identifier: Apache-2.0
// What a new version of a pod with the same UID means for the one that runs. Pure; thread-safe.
#pragma once

#include <cstdint>

namespace k8s::io::api::core::v1 {
class Pod;
}

namespace holdfast::agent {

enum class PodChangeKind : uint8_t {
  // The same but for what only bookkeeping and the node itself write (config.seen, resourceVersion,
  // managedFields, the node's part of the status).
  kNone,
  kInPlace,   // what an API server lets one change of a pod: it is taken over while the pod runs
  kReplaced,  // anything else: another pod that happens to have the same UID
};

// Of the status counts what others wrote and the node goes by: conditions that are not its own, and
// a phase that the pod never leaves again.
PodChangeKind ComparePods(const k8s::io::api::core::v1::Pod& before,
                          const k8s::io::api::core::v1::Pod& after);

}  // namespace holdfast::agent
