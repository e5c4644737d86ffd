// SPDX-License-Identifier: Apache-2.0
// The two kernel filters of the cage; see sandbox.h. Both need no_new_privs.
#pragma once

#include "holdfast/base/result.h"
#include "runtime/image/unpack/sandbox.h"

namespace holdfast::runtime::unpack {

// Landlock: only below `directory`. A kernel without Landlock ABI 2 is not an error.
Result<void> ConfineFiles(int directory);

// seccomp: every other call kills the process.
Result<void> ConfineCalls(Cage cage);

}  // namespace holdfast::runtime::unpack
