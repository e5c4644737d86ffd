// SPDX-License-Identifier: Apache-2.0
#include "agent/library_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

void (*g_refused)() = nullptr;

}  // namespace

void OnRefusedLibraryThread(void (*refused)()) { g_refused = refused; }

void NoteThreadStart(int error) {
  if (error != 0 && g_refused != nullptr && !sys::IsStartingThread()) g_refused();
}

}  // namespace holdfast::agent

// What every library calls: the program's own symbol comes first.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  const int error = create(thread, attributes, start, argument);
  holdfast::agent::NoteThreadStart(error);
  return error;
}
