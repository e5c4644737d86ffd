// SPDX-License-Identifier: Apache-2.0
// Fetching a log pipe out of the container that writes it, when holder and logger both died.
#pragma once

#include <cstdint>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/keeper/common/types.h"

namespace holdfast::runtime::keeper {

// The read end of the pipe with `inode`, found among the descriptors of the container's first
// process and, failing that, of every other process; pidfd_getfd, inode compared, re-opened
// read-only. kNotFound when no process holds it: then it is gone with all it held.
Result<UniqueFd> RecoverLogPipe(const StartRecord& start, uint64_t inode);

}  // namespace holdfast::runtime::keeper
