// SPDX-License-Identifier: Apache-2.0
#include "agent/library_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "holdfast/base/address_sanitizer.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

// Threads of ours that have nothing to do end after 5 s (LanePool::Rest) and leave room under a limit, in which a process
// that began anew might not find enough.
constexpr std::chrono::seconds kPatience{8};
constexpr std::chrono::milliseconds kPause{50};

void (*g_refused)() = nullptr;

// `start` answers as pthread_create(3).
template <class Start>
int StartForLibrary(const Start& start) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int error = start();
  while (error == EAGAIN && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
    error = start();
  }
  if (error != 0) g_refused();
  return error;
}

}  // namespace

void OnRefusedLibraryThread(void (*refused)()) { g_refused = refused; }

}  // namespace holdfast::agent

#if HOLDFAST_ADDRESS_SANITIZER  // it has to know each thread; its own is no library's, but linked into the program
extern "C" int __interceptor_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*),
                                            void*);
#endif

// What every library calls: the program's own symbol comes first.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
#if HOLDFAST_ADDRESS_SANITIZER
  const auto create = __interceptor_pthread_create;
#else
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
#endif
  const auto once = [&] { return create(thread, attributes, start, argument); };
  const bool is_librarys =
      holdfast::agent::g_refused != nullptr && !holdfast::sys::IsStartingThread();
  return is_librarys ? holdfast::agent::StartForLibrary(once) : once();
}
