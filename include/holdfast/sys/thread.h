// SPDX-License-Identifier: Apache-2.0
// The one way in which our programs start a thread: the kernel refuses one whenever a limit on
// tasks (pids cgroup, RLIMIT_NPROC) or on memory is reached, and whoever starts it decides what
// then. std::thread's own constructor throws, which nobody on the way expects
// (tests/unit/structure). Thread-safe: no state. Source: pthread_create(3), EAGAIN.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <thread>

#include "holdfast/base/result.h"

namespace holdfast::sys {

// `name` is cut after 15 bytes, as the kernel has it (prctl(2), PR_SET_NAME). kResourceExhausted
// when the thread cannot be had; `body` is destroyed then and was never called.
Result<std::thread> StartThread(const std::string& name, std::function<void()> body);

// The same for what was refused to somebody else; `error` as of pthread_create(3).
Error RefusedThread(const std::string& name, int error);

// Whether the calling thread is inside of StartThread.
bool IsStartingThread();

// Whether so many threads can be had at once, now: they are started, and have ended when it
// returns. For libraries that start some of their own and abort when they get none.
Result<void> TryThreads(size_t count);

}  // namespace holdfast::sys
