// SPDX-License-Identifier: Apache-2.0
// What becomes of a library that is refused a thread. gRPC 1.51 goes on without one of its own as if it
// were there: its start, calls and its end hang. Nothing tells; so this program stands before the C
// library's pthread_create (library_threads.cc), asks again for a while, and looks at what it answers.
#pragma once

namespace holdfast::agent {

// `refused` is called in the middle of the library, by the thread that was to start another, when it was refused for 8 s.
// Those of sys::StartThread do not count: whoever calls it is told. Once, before there are threads.
void OnRefusedLibraryThread(void (*refused)());

}  // namespace holdfast::agent
