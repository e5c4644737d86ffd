// SPDX-License-Identifier: Apache-2.0
// Verbs on files by (directory fd, relative name). Every descriptor is O_CLOEXEC.
// Thread-safe: no state. Errors name the call and the path.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

// openat2(2) RESOLVE_* sets. kInRoot: `root` is "/" for absolute names and "..", as in a container.
// kBeneath: leaving `dir` fails with EXDEV. Both refuse magic links. kNoLinks: as kBeneath, and every symbolic link on the way
// fails with ELOOP.
enum class Resolve : uint8_t { kBeneath, kInRoot, kNoLinks };

// Opens `path` (relative to `dir`, AT_FDCWD allowed) by plain openat(2): for our own paths only.
Result<UniqueFd> OpenAt(int dir, const std::string& path, int flags, mode_t mode = 0);
// What a descriptor is of (O_PATH will do), opened anew, whatever lies at its path by now.
Result<UniqueFd> Reopen(int fd, int flags);
Result<DirFd> OpenDir(const std::string& absolute_path);
Result<DirFd> OpenDirAt(int dir, const std::string& path);
// Opens an untrusted `path` below `root`.
Result<UniqueFd> OpenInside(int root, const std::string& path, int flags, mode_t mode, Resolve how);

// mkdir -p below `dir`; each missing part gets `mode`. Returns the last directory (O_PATH).
Result<DirFd> MakeDirs(int dir, const std::string& path, mode_t mode);
// The same below an untrusted root: symlinks resolve inside it, never outside.
Result<DirFd> MakeDirsInside(int root, const std::string& path, mode_t mode);

// Whole content; kResourceExhausted above `limit` bytes.
Result<std::string> ReadFd(int fd, size_t limit);
Result<std::string> ReadFileAt(int dir, const std::string& path, size_t limit);
Result<void> WriteAll(int fd, std::string_view data);
// Writes into an existing file with one write(2), as cgroup and sysctl files want it.
Result<void> WriteControlAt(int dir, const std::string& path, std::string_view data);

// Temporary file in the same directory, fsync, rename over `name`, fsync of the directory: after a
// crash the file holds the old or the new content, whole. `durable` false leaves out the fsyncs
// (for a tmpfs).
Result<void> WriteFileAtomicAt(int dir, const std::string& name, std::string_view data, mode_t mode,
                               bool durable = true);

// Whether WriteFileAtomicAt calls a file so until it is whole.
bool IsTemporaryName(std::string_view name);

// Removes from the directory `path` what WriteFileAtomicAt left there when its thread was killed,
// for files whose name begins with `prefix`. kAny: the caller knows that nobody is writing there
// now; kDead: the files of living threads stay.
enum class Writer { kAny, kDead };
Result<void> RemoveTemporariesAt(int dir, const std::string& path, Writer writer = Writer::kAny,
                                 std::string_view prefix = "");

// unlink(2) / rm -r; absent is success. Never follows a symlink, never crosses a mount point.
Result<void> RemoveFileAt(int dir, const std::string& name);
Result<void> RemoveTreeAt(int dir, const std::string& name);

// Names in a directory without "." and "..", sorted.
Result<std::vector<std::string>> ListDirAt(int dir, const std::string& path);

bool ExistsAt(int dir, const std::string& path);
// st_mtime, of a symbolic link its own; zero where there is nothing.
WallTime ChangedAt(int dir, const std::string& path);

// An anonymous file with `data`, sealed against every change; name shows in /proc.
Result<UniqueFd> SealedMemfd(const std::string& name, std::string_view data);

}  // namespace holdfast::sys
