// SPDX-License-Identifier: Apache-2.0
// Work inside another network namespace.
#pragma once

#include <functional>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

// Runs `work` on a short-lived thread that entered the namespace `netns` (setns(2)); returns what
// `work` returned. What `work` opens (sockets, /proc/sys/net files) belongs to that namespace for
// good. Thread-safe. kInvalidArgument when `netns` is no network namespace.
Result<void> RunInNetworkNamespace(int netns, const std::function<Result<void>()>& work);

// Runs `work` on the calling thread, which is in the namespace `netns` meanwhile and in `home` before and after: for work that is
// so short that starting a thread for it would take longer. A thread that cannot come back must not go on where a container
// may decide what it meets, so the process ends there (abort(3)); a lack of memory in the kernel is the only cause.
Result<void> VisitNetworkNamespace(int netns, const NsFd& home,
                                   const std::function<Result<void>()>& work);

// A new network namespace with nothing in it, made on a short-lived thread; it lives as long as a
// descriptor, a process or a mount refers to it.
Result<NsFd> NewNetworkNamespace();

// The calling thread's namespace.
Result<NsFd> CurrentNetworkNamespace();

}  // namespace holdfast::sys
