// SPDX-License-Identifier: Apache-2.0
#include "agent/library_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "agent/base/kept_threads.h"
#include "holdfast/base/address_sanitizer.h"
#include "holdfast/sys/thread.h"

#if HOLDFAST_ADDRESS_SANITIZER  // it has to know each thread; its own is no library's, but linked into the program
extern "C" int __interceptor_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*),
                                            void*);
extern "C" int __interceptor_pthread_join(pthread_t, void**);
extern "C" int __interceptor_pthread_detach(pthread_t);
#endif

namespace holdfast::agent {
namespace {

// Threads of ours that have nothing to do end after 5 s (LanePool::Rest) and leave room under a limit, in which a process
// that began anew might not find enough.
constexpr std::chrono::seconds kPatience{8};
constexpr std::chrono::milliseconds kPause{50};

void (*g_refused)() = nullptr;

// The function of that name which this program stands before.
template <class Function>
Function Behind(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

int Create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
           void* argument) {
#if HOLDFAST_ADDRESS_SANITIZER
  return __interceptor_pthread_create(thread, attributes, start, argument);
#else
  static const auto create = Behind<decltype(&Create)>("pthread_create");
  return create(thread, attributes, start, argument);
#endif
}

int Join(pthread_t thread, void** result) {
#if HOLDFAST_ADDRESS_SANITIZER
  return __interceptor_pthread_join(thread, result);
#else
  static const auto join = Behind<decltype(&Join)>("pthread_join");
  return join(thread, result);
#endif
}

int Detach(pthread_t thread) {
#if HOLDFAST_ADDRESS_SANITIZER
  return __interceptor_pthread_detach(thread);
#else
  static const auto detach = Behind<decltype(&Detach)>("pthread_detach");
  return detach(thread);
#endif
}

KeptThreads& Kept() {
  static auto* const kept = new KeptThreads(Create);  // its threads outlive main()
  return *kept;
}

// Of `attributes` as of pthread_create(3). What is asked of them fails for a bad pointer only.

bool IsDetached(const pthread_attr_t* attributes) {
  int state = PTHREAD_CREATE_JOINABLE;
  if (attributes != nullptr) (void)::pthread_attr_getdetachstate(attributes, &state);
  return state == PTHREAD_CREATE_DETACHED;
}

bool HasUsualStack(const pthread_attr_t* attributes) {
  if (attributes == nullptr) return true;
  pthread_attr_t usual;
  if (::pthread_attr_init(&usual) != 0) return false;
  size_t stack = 0, usual_stack = 0;
  (void)::pthread_attr_getstacksize(attributes, &stack);
  (void)::pthread_attr_getstacksize(&usual, &usual_stack);
  (void)::pthread_attr_destroy(&usual);
  return stack == usual_stack;
}

// Answers as pthread_create(3).
int StartForLibrary(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                    void* argument) {
  const auto once = [&] {
    return HasUsualStack(attributes) ? Kept().Start(thread, IsDetached(attributes), start, argument)
                                     : Create(thread, attributes, start, argument);
  };
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int error = once();
  while (error == EAGAIN && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
    error = once();
  }
  if (error != 0) g_refused();
  return error;
}

}  // namespace

void KeepLibraryThreads(void (*refused)()) { g_refused = refused; }

Result<void> ReserveLibraryThreads(size_t count) {
  if (const int error = Kept().Reserve(count); error != 0) {
    return sys::RefusedThread("of a library", error);
  }
  return {};
}

}  // namespace holdfast::agent

// What every library calls: the program's own symbols come first.

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  const bool is_librarys =
      holdfast::agent::g_refused != nullptr && !holdfast::sys::IsStartingThread();
  return is_librarys ? holdfast::agent::StartForLibrary(thread, attributes, start, argument)
                     : holdfast::agent::Create(thread, attributes, start, argument);
}

extern "C" int pthread_join(pthread_t thread, void** result) {
  if (const auto kept = holdfast::agent::Kept().Join(thread, result)) return *kept;
  return holdfast::agent::Join(thread, result);
}

extern "C" int pthread_detach(pthread_t thread) noexcept {
  if (const auto kept = holdfast::agent::Kept().Detach(thread)) return *kept;
  return holdfast::agent::Detach(thread);
}
