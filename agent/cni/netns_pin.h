// SPDX-License-Identifier: Apache-2.0
// A network namespace under a path, as plugins want it: a mount of the namespace on an empty file. It outlives the
// agent, the keeper and all processes of the pod, so that what was attached can be detached by the same path.
// Thread-safe: no state. Source: namespaces(7), mount(2).
#pragma once

#include <string>

#include "holdfast/base/result.h"

namespace holdfast::agent::cni {

// Makes `path`, and its directory where it is missing. `netns` is borrowed.
Result<void> PinNamespace(const std::string& path, int netns);
// Success when it is gone already.
Result<void> UnpinNamespace(const std::string& path);

// Whether a namespace is there; after a reboot there is none.
bool IsPinned(const std::string& path);
// Whether it is the one that `netns` is.
bool IsPinOf(const std::string& path, int netns);

}  // namespace holdfast::agent::cni
