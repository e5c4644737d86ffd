// SPDX-License-Identifier: Apache-2.0
// Directories of pods that nobody knows, for "holdctl check". What is inside cannot be judged
// without a record.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"

namespace holdfast::agent {

// Appends to `found` each entry of the directory `pods` that `known` does not name, and removes it
// with `remove` (path in, may be empty). `known` is asked when the entries have been read, and
// again before each removal: a pod that is applied meanwhile is known before it has a directory.
void AuditPodDirectories(const std::string& pods, const std::function<std::set<PodUid>()>& known,
                         const std::function<Result<void>(const std::string&)>& remove,
                         std::vector<Leftover>& found);

}  // namespace holdfast::agent
