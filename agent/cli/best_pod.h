// SPDX-License-Identifier: Apache-2.0
// Which of several pods is meant by who names what they belong to. Pure. Source: kubectl's orders, which differ.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::cli {

enum class PodUse : uint8_t { kAttach, kLogs };

// Of those that are ready the one that has been for longest; then to attach the one that restarted least, for logs
// most; the oldest. Null: there is none.
const k8s::io::api::core::v1::Pod* BestPod(const std::vector<k8s::io::api::core::v1::Pod>& pods,
                                           PodUse use);

// It says so of itself. A Deployment's pods belong to a ReplicaSet that is called after it and the template's hash.
bool IsOwnedBy(const k8s::io::api::core::v1::Pod& pod, std::string_view kind,
               const std::string& name);

}  // namespace holdfast::agent::cli
