// SPDX-License-Identifier: Apache-2.0
// A file that says which process uses what lies beside it. Thread-safe: no state. Source: flock(2).
#pragma once

#include <chrono>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

// The lock, held while the descriptor is open; the file is made with mode 0600. kConflict when
// another process has had it for all of `patience`: one that was killed keeps it until the kernel
// has closed its descriptors. On a read-only file system a file that is there is locked all the
// same.
Result<UniqueFd> TakeLock(int dir, const std::string& name,
                          std::chrono::milliseconds patience = std::chrono::seconds(2));

}  // namespace holdfast::sys
