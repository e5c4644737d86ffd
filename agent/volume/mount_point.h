// SPDX-License-Identifier: Apache-2.0
// What is mounted on a directory: whether, and its end. Thread-safe.
#pragma once

#include <string>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// True when `path` is the root of a mount (statx(2) STATX_ATTR_MOUNT_ROOT); absent is false. The server of a network file
// system is not asked.
Result<bool> IsMountPoint(const std::string& path);
// The same of `name` in the directory `dir`.
Result<bool> IsMountPointAt(int dir, const std::string& name);
// Lazily; never of what a symlink leads to.
Result<void> Unmount(const std::string& path);
Result<void> UnmountIfMounted(const std::string& path);

}  // namespace holdfast::agent
