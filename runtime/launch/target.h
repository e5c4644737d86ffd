// SPDX-License-Identifier: Apache-2.0
// Where in the container's root something goes. The root holds an image's bytes, so every name is
// resolved inside it, and what is found is used by descriptor, never by name again. Child only.
#pragma once

#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime {

// A directory that must be itself and no symlink, directly below `root` ("/proc"); made when
// missing.
Result<UniqueFd> OrdinaryDirectory(int root, const std::string& path);

// What `path` shows, through symlinks that stay inside; made when missing: a directory, or an empty
// file if not `directory`. Refuses everything on a procfs: its files are too powerful to be covered
// or to be written through.
Result<UniqueFd> MountTarget(int root, const std::string& path, bool directory);

// A detached, empty, writable tmpfs that can become a root directory.
Result<MountFd> NewEmptyRoot();

// Detached; of the pid namespace that the caller is in.
Result<MountFd> NewProcfs();

}  // namespace holdfast::runtime
