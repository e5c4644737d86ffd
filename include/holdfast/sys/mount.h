// SPDX-License-Identifier: Apache-2.0
// The new mount API on descriptors: a mount is made detached, changed, and attached onto an opened
// target. Every descriptor is O_CLOEXEC. Thread-safe: no state. Errors name the call and its
// object; those of a file system context carry the kernel's own message where it left one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

// Mount attributes as a value; every field false or kKeep changes nothing.
struct MountAttributes {
  enum class Propagation : uint8_t { kKeep, kPrivate, kSlave, kShared };
  bool read_only = false;
  bool no_suid = false;
  bool no_dev = false;
  bool no_exec = false;
  bool strict_atime = false;
  Propagation propagation = Propagation::kKeep;
};

// fsopen(2): a file system context, to be configured and then created.
Result<UniqueFd> OpenFilesystem(const char* type);
// fsconfig(2). A string value may hold 255 bytes.
Result<void> SetOption(int context, const char* key, const std::string& value);
Result<void> SetFlag(int context, const char* key);
Result<void> SetDescriptor(int context, const char* key, int fd);
// FSCONFIG_CMD_CREATE and fsmount(2).
Result<MountFd> CreateMount(int context, const MountAttributes& attributes);

// mount(2) of a new file system onto the entry `name` of `directory`, which must be no symlink (".": onto the directory
// itself). `directory` becomes the working directory; -1: it is that already. `options` as in fstab(5). read_only is of the file system as well, if
// it is not there yet: its other mounts then cannot be written to either.
Result<void> MountNew(const char* type, const MountAttributes& attributes,
                      const std::string& options, int directory, const std::string& name);

// open_tree(2) OPEN_TREE_CLONE: a detached copy of what is at `path` ("" is `dir` itself). Magic
// links and the last symlink are followed only as `dir` and `path` say so: never with path "".
Result<MountFd> CloneTree(int dir, const std::string& path, bool recursive);

// Sets what is true or not kKeep; leaves the rest as it is, and asks for nothing if that is all. `recursive` includes what is below.
Result<void> SetMountAttributes(int mount, const MountAttributes& attributes, bool recursive);
// Nothing that is mounted from now on in the calling process' mount namespace shows up in another one.
Result<void> MakeMountsPrivate();
// mount_setattr(2) MOUNT_ATTR_IDMAP by the map of `user_namespace`; detached mounts only.
Result<void> SetIdMap(int mount, int user_namespace, bool recursive);

// move_mount(2) of a detached mount onto an opened file or directory.
Result<void> AttachMount(int mount, int target, const std::string& what);
// The same onto the entry `name` of `directory`, itself even if it is a symlink.
Result<void> AttachMountAt(int mount, int directory, const std::string& name,
                           const std::string& what);
// umount2(2) MNT_DETACH of what `directory` shows, without following a path.
Result<void> DetachMountAt(int directory);

// Makes the mount `root` the root of the calling process' mount namespace and drops the old one:
// pivot_root(2), or, where the old root is the initramfs and can only be covered, MS_MOVE onto "/"
// (unless it lies there) and chroot(2). Sets the working directory to the new root.
Result<void> PivotInto(int root);

}  // namespace holdfast::sys
