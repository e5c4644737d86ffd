// SPDX-License-Identifier: Apache-2.0
// The run directory is a tmpfs, mounted by whichever of our processes comes first.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::runtime::keeper {

// Makes `run_dir` and, unless it lies on a tmpfs already, mounts one there; under a lock
// (<run_dir>.lock), so that two processes starting together do it once. Where mounting is not
// allowed the directory is used as it is and the returned warnings say so: spools then cost disk
// writes, and records survive a reboot that their processes do not.
Result<std::vector<std::string>> EnsureRunDir(const std::string& run_dir);

}  // namespace holdfast::runtime::keeper
