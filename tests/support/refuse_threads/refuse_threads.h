// SPDX-License-Identifier: Apache-2.0
// Makes thread starts of a process fail with EAGAIN, as the kernel does at a limit on tasks. A test
// program links this library and calls RefuseThreads(); another program gets it by LD_PRELOAD and
// follows the file that HOLDFAST_REFUSE_THREADS names, read anew at each start of a thread:
//   "3 1" refuses the process' 3rd start, "3 1000000" that and all that follow; no file, none.
// Each start adds a byte to the file of that name with ".starts" behind it, whose size is its
// number.
#pragma once

#include <cstdint>

namespace holdfast::test {

// After `skip` more starts the next `count` are refused.
void RefuseThreads(uint64_t skip, uint64_t count);

}  // namespace holdfast::test
