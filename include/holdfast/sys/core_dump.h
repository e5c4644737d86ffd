// SPDX-License-Identifier: Apache-2.0
// No secret of a pod leaves by a core file of ours. For programs at their start, before there are
// threads. Source: prctl(2), core(5).
#pragma once

#include <sys/resource.h>

#include "holdfast/base/result.h"

namespace holdfast::sys {

// PR_SET_DUMPABLE 0: no core dump, not to a helper program either, and no other process without
// CAP_SYS_PTRACE reads our memory, environment or descriptors. Lasts until the next execve(2).
Result<void> HideMemory();

// HideMemory, and as a second line the soft RLIMIT_CORE at 0, for us and what we start. Returns
// what the limit was: whose children are to keep the node's sets it again for them.
Result<rlimit> PreventCoreDumps();

}  // namespace holdfast::sys
