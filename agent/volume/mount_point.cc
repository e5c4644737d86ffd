// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/mount_point.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>

#include "holdfast/base/strings.h"

namespace holdfast::agent {

Result<bool> IsMountPoint(const std::string& path) { return IsMountPointAt(AT_FDCWD, path); }

Result<bool> IsMountPointAt(int dir, const std::string& path) {
  struct statx st{};
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  if (::statx(dir, path.c_str(), kFlags, STATX_TYPE, &st) != 0) {
    if (errno == ENOENT) return false;
    return Error::FromErrno(errno, StrCat("statx ", path));
  }
  return (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

Result<void> Unmount(const std::string& path) {
  if (::umount2(path.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH) == 0) return {};
  return Error::FromErrno(errno, StrCat("umount ", path));
}

Result<void> UnmountIfMounted(const std::string& path) {
  ASSIGN_OR_RETURN(const bool mounted, IsMountPoint(path));
  return mounted ? Unmount(path) : Result<void>();
}

}  // namespace holdfast::agent
