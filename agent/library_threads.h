// SPDX-License-Identifier: Apache-2.0
// The threads of libraries. gRPC 1.51 goes on without one that it was refused as if it were there: its
// start, calls and its end hang, and nothing tells. So this program stands before the C library's
// pthread_create (library_threads.cc): a thread that a library has ended is kept for the next it asks
// for (KeptThreads), and where there is none, the kernel is asked again for a while.
#pragma once

#include <cstddef>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// From now on, and not for threads of sys::StartThread: whoever calls it is told. `refused` is called in
// the middle of the library, by the thread that was to start another, when it was refused for 8 s. Once, before there
// are threads.
void KeepLibraryThreads(void (*refused)());

// So many threads of libraries that are started from now on need none of the kernel's: they are made here,
// but for those that are kept already. Thread-safe.
Result<void> ReserveLibraryThreads(size_t count);

}  // namespace holdfast::agent
