// SPDX-License-Identifier: Apache-2.0
// Links to the logs of containers' runs in one directory of the node (containerLogDir), where log
// collectors look for them.
#pragma once

#include <cstdint>
#include <string>

#include "agent/pod/state/paths.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// One that is there stays as it is.
Result<void> LinkLog(const std::string& directory, const PodPaths& paths,
                     const std::string& container, uint32_t attempt, const ContainerId& id);

// Those of a pod that lead to its logs.
Result<void> RemoveLogLinks(const std::string& directory, const PodPaths& paths);

}  // namespace holdfast::agent
