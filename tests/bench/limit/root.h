// SPDX-License-Identifier: Apache-2.0
// The root file system of one container: the mounts, devices, links and masks that runtime/plan gives to one, by the
// plainest calls. In a child process with a mount namespace of its own; a failure ends it.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/limit/cgroups.h"

namespace holdfast::bench {

// What hides of the node, and must be found out while its /sys is there.
std::vector<std::string> ThrottlePaths();

// An overlay of LAYER with SCRATCH/upper and SCRATCH/work; afterwards it is the working directory.
void MountContainerRoot(const std::string& layer, const std::string& scratch,
                        const std::vector<BareCgroups::Visible>& cgroups);
// Masked and read-only paths below the working directory.
void HideNode(const std::vector<std::string>& throttle_paths);
// The working directory becomes /, and nothing is left of the former.
void EnterContainerRoot();

}  // namespace holdfast::bench
