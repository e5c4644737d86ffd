// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/thread.h"

#include <pthread.h>

#include <cerrno>
#include <future>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"

namespace holdfast::sys {
namespace {

thread_local bool g_starting = false;

struct Starting {
  Starting() { g_starting = true; }
  Starting(const Starting&) = delete;
  Starting& operator=(const Starting&) = delete;
  ~Starting() { g_starting = false; }
};

}  // namespace

Error RefusedThread(const std::string& name, int error) {
  const Error cause = Error::FromErrno(error, StrCat("start thread ", name));
  return {Code::kResourceExhausted, error,
          StrCat(cause.message(), " (a limit on tasks or on memory is reached)")};
}

bool IsStartingThread() { return g_starting; }

Result<std::thread> StartThread(const std::string& name, std::function<void()> body) {
  const Starting starting;
  try {
    std::thread thread(std::move(body));
    // Only for people who look at the process.
    (void)::pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
    return thread;
  } catch (const std::system_error& error) {
    return RefusedThread(name, error.code().value());
  } catch (const std::bad_alloc&) {
    return RefusedThread(name, ENOMEM);
  }
}

Result<void> TryThreads(size_t count) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::vector<std::thread> threads;
  Result<void> outcome;
  for (size_t i = 0; i < count && outcome; ++i) {
    auto thread = StartThread("try", [released] { released.wait(); });
    if (thread) {
      threads.push_back(std::move(*thread));
    } else {
      outcome = std::move(thread.error());
    }
  }
  release.set_value();
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

}  // namespace holdfast::sys
