// SPDX-License-Identifier: Apache-2.0
// fsGroup: a volume that belongs to a group and stays so.
#pragma once

#include <sys/types.h>

#include "agent/volume/ownership_progress.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

// Everything below and including `dir` gets the group, read and write for it, and directories the
// setgid bit. `only_on_mismatch`: nothing is done when the top already is so. Never follows
// symlinks, never enters what is mounted below; containers may go on changing the tree
// (sys/tree.h). `progress`: null where nobody is told.
Result<void> GiveToGroup(int dir, gid_t group, bool only_on_mismatch,
                         OwnershipProgress* progress = nullptr);
// As the pod's fsGroup and its fsGroupChangePolicy say; nothing without an fsGroup.
Result<void> GiveToGroupOf(const ::k8s::io::api::core::v1::Pod& pod, int dir,
                           OwnershipProgress* progress = nullptr);

}  // namespace holdfast::agent
