// SPDX-License-Identifier: Apache-2.0
// The container that logs and exec take when none was named.
#pragma once

#include <string>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::cli {

// The one that the annotation kubectl.kubernetes.io/default-container names, else the first; where
// there are several, stderr says so in kubectl's words unless `quiet`.
std::string DefaultContainer(const k8s::io::api::core::v1::Pod& pod, bool quiet);

// "a, b, init (init)": the main ones, those of init, ephemeral ones.
std::string ContainerChoice(const k8s::io::api::core::v1::Pod& pod);

}  // namespace holdfast::agent::cli
