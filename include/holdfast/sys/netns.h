// SPDX-License-Identifier: Apache-2.0
// Work inside another network namespace without ever moving the calling thread.
#pragma once

#include <functional>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

// Runs `work` on a short-lived thread that entered the namespace `netns` (setns(2)); returns what
// `work` returned. What `work` opens (sockets, /proc/sys/net files) belongs to that namespace for
// good. Thread-safe. kInvalidArgument when `netns` is no network namespace.
Result<void> RunInNetworkNamespace(int netns, const std::function<Result<void>()>& work);

// A new network namespace with nothing in it, made on a short-lived thread; it lives as long as a
// descriptor, a process or a mount refers to it.
Result<NsFd> NewNetworkNamespace();

// The calling thread's namespace.
Result<NsFd> CurrentNetworkNamespace();

}  // namespace holdfast::sys
