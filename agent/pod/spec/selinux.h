// SPDX-License-Identifier: Apache-2.0
// seLinuxOptions of a pod: whose are a container's, and which volumes are mounted with its label instead of being labelled
// file by file. Pure. Source: kubelet 1.36, pkg/securitycontext, pkg/volume/util/selinux.go.
#pragma once

#include <optional>
#include <string>

#include "agent/volume/persistent_volume.h"
#include "holdfast/base/result.h"
#include "holdfast/model/selinux.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

model::SelinuxOptions SelinuxOptionsOf(const ::k8s::io::api::core::v1::SELinuxOptions& options);

// A container that names some gets none of the pod's.
model::SelinuxOptions SelinuxOptionsOf(const ::k8s::io::api::core::v1::Pod& pod,
                                       const ::k8s::io::api::core::v1::SecurityContext& container);

// Adds the mount option `context` to a volume of a plugin whose CSIDriver says seLinuxMount, as a kubelet does: of one with the
// access mode ReadWriteOncePod alone, unless the pod's seLinuxChangePolicy is Recursive, when every container that has it
// names the same label; here with a level. `name`: the volume's in the pod; `node`: none without SELinux.
// kInvalidArgument: containers that have it name several labels, or one that is none.
Result<void> MountWithLabel(const ::k8s::io::api::core::v1::Pod& pod, const std::string& name,
                            const std::optional<model::SelinuxContexts>& node,
                            PersistentVolume& volume);

}  // namespace holdfast::agent
