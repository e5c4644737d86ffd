// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"

namespace holdfast::sys {
namespace {

constexpr uint64_t kAttrIdMap = 0x00100000;  // MOUNT_ATTR_IDMAP (5.12)

// What the kernel wrote into the context's log ("e overlay: …"), or "".
std::string ContextLog(int context) {
  char line[256];
  std::string log;
  for (int lines = 0; lines < 8; ++lines) {
    const ssize_t n = ::read(context, line, sizeof line);
    if (n <= 2) break;
    std::string_view text(line + 2, static_cast<size_t>(n) - 2);
    if (text.ends_with('\n')) text.remove_suffix(1);
    if (!log.empty()) log += "; ";
    log += text;
  }
  return log;
}

Error ContextError(int context, int err, const std::string& what) {
  const std::string log = ContextLog(context);
  return Error::FromErrno(err, log.empty() ? what : StrCat(what, " (", log, ")"));
}

struct Attribute {
  bool MountAttributes::* wanted;
  uint64_t bit;        // of fsmount(2) and mount_setattr(2)
  unsigned long flag;  // of mount(2)
};
constexpr Attribute kAttributes[] = {
    {&MountAttributes::read_only, MOUNT_ATTR_RDONLY, MS_RDONLY},
    {&MountAttributes::no_suid, MOUNT_ATTR_NOSUID, MS_NOSUID},
    {&MountAttributes::no_dev, MOUNT_ATTR_NODEV, MS_NODEV},
    {&MountAttributes::no_exec, MOUNT_ATTR_NOEXEC, MS_NOEXEC},
    {&MountAttributes::strict_atime, MOUNT_ATTR_STRICTATIME, MS_STRICTATIME},
};

template <class Bits>
Bits BitsOf(const MountAttributes& attributes, Bits Attribute::* of) {
  Bits bits = 0;
  for (const Attribute& each : kAttributes) {
    if (attributes.*each.wanted) bits |= each.*of;
  }
  return bits;
}

uint64_t PropagationBits(MountAttributes::Propagation propagation) {
  switch (propagation) {
    case MountAttributes::Propagation::kKeep:
      return 0;
    case MountAttributes::Propagation::kPrivate:
      return MS_PRIVATE;
    case MountAttributes::Propagation::kSlave:
      return MS_SLAVE;
    case MountAttributes::Propagation::kShared:
      return MS_SHARED;
  }
  return 0;
}

Result<void> SetAttributes(int mount, const char* path, mount_attr request, bool recursive) {
  const unsigned flags = AT_EMPTY_PATH | (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0u);
  if (::syscall(SYS_mount_setattr, mount, path, flags, &request, sizeof request) != 0) {
    return Error::FromErrno(errno, "mount_setattr");
  }
  return {};
}

}  // namespace

Result<UniqueFd> OpenFilesystem(const char* type) {
  const long fd = ::syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
  if (fd < 0) return Error::FromErrno(errno, StrCat("fsopen ", type));
  return UniqueFd(static_cast<int>(fd));
}

Result<void> SetOption(int context, const char* key, const std::string& value) {
  if (::syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, key, value.c_str(), 0) != 0) {
    return ContextError(context, errno, StrCat("fsconfig ", key, "=", value));
  }
  return {};
}

Result<void> SetFlag(int context, const char* key) {
  if (::syscall(SYS_fsconfig, context, FSCONFIG_SET_FLAG, key, nullptr, 0) != 0) {
    return ContextError(context, errno, StrCat("fsconfig ", key));
  }
  return {};
}

Result<void> SetDescriptor(int context, const char* key, int fd) {
  if (::syscall(SYS_fsconfig, context, FSCONFIG_SET_FD, key, nullptr, fd) != 0) {
    return ContextError(context, errno, StrCat("fsconfig ", key, " by descriptor"));
  }
  return {};
}

Result<MountFd> CreateMount(int context, const MountAttributes& attributes) {
  if (::syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return ContextError(context, errno, "fsconfig create");
  }
  const long fd =
      ::syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, BitsOf(attributes, &Attribute::bit));
  if (fd < 0) return ContextError(context, errno, "fsmount");
  return MountFd(static_cast<int>(fd));
}

Result<void> MountNew(const char* type, const MountAttributes& attributes,
                      const std::string& options, int directory, const std::string& name) {
  if (directory >= 0 && ::fchdir(directory) != 0) {
    return Error::FromErrno(errno, "fchdir to a mount's target");
  }
  if (::mount(type, name.c_str(), type, BitsOf(attributes, &Attribute::flag), options.c_str()) !=
      0) {
    return Error::FromErrno(errno, StrCat("mount ", type, " with \"", options, "\""));
  }
  return {};
}

Result<MountFd> CloneTree(int dir, const std::string& path, bool recursive) {
  unsigned flags =
      static_cast<unsigned>(OPEN_TREE_CLONE) | static_cast<unsigned>(OPEN_TREE_CLOEXEC);
  if (path.empty()) flags |= AT_EMPTY_PATH;
  if (recursive) flags |= AT_RECURSIVE;
  const long fd = ::syscall(SYS_open_tree, dir, path.c_str(), flags);
  if (fd < 0) return Error::FromErrno(errno, StrCat("open_tree ", path));
  return MountFd(static_cast<int>(fd));
}

Result<void> SetMountAttributes(int mount, const MountAttributes& attributes, bool recursive) {
  mount_attr request{};
  request.attr_set = BitsOf(attributes, &Attribute::bit);
  if (attributes.strict_atime) request.attr_clr = MOUNT_ATTR__ATIME;
  request.propagation = PropagationBits(attributes.propagation);
  if (request.attr_set == 0 && request.propagation == 0) return {};
  return SetAttributes(mount, "", request, recursive);
}

Result<void> MakeMountsPrivate() {
  mount_attr request{};
  request.propagation = MS_PRIVATE;
  return WithContext(SetAttributes(AT_FDCWD, "/", request, true), "private mounts");
}

Result<void> SetIdMap(int mount, int user_namespace, bool recursive) {
  mount_attr request{};
  request.attr_set = kAttrIdMap;
  request.userns_fd = static_cast<uint64_t>(user_namespace);
  return WithContext(SetAttributes(mount, "", request, recursive), "idmap");
}

Result<void> AttachMount(int mount, int target, const std::string& what) {
  constexpr unsigned kFlags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  if (::syscall(SYS_move_mount, mount, "", target, "", kFlags) != 0) {
    return Error::FromErrno(errno, StrCat("move_mount onto ", what));
  }
  return {};
}

Result<void> AttachMountAt(int mount, int directory, const std::string& name,
                           const std::string& what) {
  if (::syscall(SYS_move_mount, mount, "", directory, name.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return Error::FromErrno(errno, StrCat("move_mount onto ", what));
  }
  return {};
}

Result<void> DetachMountAt(int directory) {
  if (::fchdir(directory) != 0) return Error::FromErrno(errno, "fchdir to a mount");
  if (::umount2(".", MNT_DETACH) != 0) return Error::FromErrno(errno, "umount2");
  return {};
}

Result<void> PivotInto(int root) {
  if (::fchdir(root) != 0) return Error::FromErrno(errno, "fchdir to the new root");
  if (::syscall(SYS_pivot_root, ".", ".") == 0) {
    // The old root now lies above the new one at "."; what is topmost goes.
    if (::umount2(".", MNT_DETACH) != 0) return Error::FromErrno(errno, "umount2 of the old root");
    if (::chdir("/") != 0) return Error::FromErrno(errno, "chdir /");
    return {};
  }
  // EINVAL: the current root is the initramfs, which cannot be moved away, only covered.
  if (errno != EINVAL) return Error::FromErrno(errno, "pivot_root");
  // ELOOP: the new root covers it already.
  if (::mount(".", "/", nullptr, MS_MOVE, nullptr) != 0 && errno != ELOOP) {
    return Error::FromErrno(errno, "mount MS_MOVE of the new root");
  }
  if (::chroot(".") != 0) return Error::FromErrno(errno, "chroot");
  if (::chdir("/") != 0) return Error::FromErrno(errno, "chdir /");
  return {};
}

}  // namespace holdfast::sys
