// SPDX-License-Identifier: Apache-2.0
// Verbs on a tree in which somebody else may rename, link and replace at any moment, as a container
// that has the pod log directory mounted. `root` is the node's own and may lead through symlinks;
// below it no symlink is followed and no ".." leads out (openat2(2) RESOLVE_BENEATH,
// RESOLVE_NO_SYMLINKS).
// Thread-safe: no state. Errors name the call and the path; kConflict: there is something else than
// what may be there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

// The directory `path` below `root`, as O_PATH.
Result<DirFd> OpenDirBelow(const std::string& root, const std::string& path);
// The same; what is missing, `root` included, is made with `mode`.
Result<DirFd> MakeDirsBelow(const std::string& root, const std::string& path, mode_t mode);

// What is at `path`, as O_PATH. Where a `root` is named, a directory below it, opened as OpenDirBelow
// does; else links are followed, as in what an administrator wrote.
Result<UniqueFd> OpenRooted(const std::string& root, const std::string& path);

// The regular file `name` in `dir`, when it has this one name and belongs to this process' user.
// Anything else is looked at only, never opened: no FIFO blocks, no device notices.
Result<UniqueFd> OpenPlainFileAt(int dir, const std::string& name, int flags);

// Whether `name` in `dir` is a file that OpenPlainFileAt takes at this moment, not larger than
// `max_size` bytes. What it says may be over when it returns.
bool IsPlainFileAt(int dir, const std::string& name, uint64_t max_size);

}  // namespace holdfast::sys
