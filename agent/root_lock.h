// SPDX-License-Identifier: Apache-2.0
// One process at a time works on a root directory: two agents would each think the other's pods to be leftovers.
#pragma once

#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent {

// Made if it is not there. Waits a moment for a former agent that was killed just now. kConflict: another one has it.
Result<UniqueFd> LockRoot(const std::string& root);

}  // namespace holdfast::agent
