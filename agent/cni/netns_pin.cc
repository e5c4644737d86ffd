// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/netns_pin.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent::cni {

Result<void> PinNamespace(const std::string& path, int netns) {
  const size_t slash = path.rfind('/');
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, path.substr(0, slash), 0755));
  RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, path, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0444));
  const std::string source = StrCat("/proc/self/fd/", netns);
  if (::mount(source.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return Error::FromErrno(errno, StrCat("mount the network namespace on ", path));
  }
  return {};
}

Result<void> UnpinNamespace(const std::string& path) {
  if (IsPinned(path) && ::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
    return Error::FromErrno(errno, StrCat("umount2 ", path));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Error::FromErrno(errno, StrCat("unlink ", path));
  }
  return {};
}

bool IsPinned(const std::string& path) {
  struct statfs fs{};
  return ::statfs(path.c_str(), &fs) == 0 && fs.f_type == NSFS_MAGIC;
}

bool IsPinOf(const std::string& path, int netns) {
  struct stat pinned{};
  struct stat given{};
  return IsPinned(path) && ::stat(path.c_str(), &pinned) == 0 && ::fstat(netns, &given) == 0 &&
         pinned.st_dev == given.st_dev && pinned.st_ino == given.st_ino;
}

}  // namespace holdfast::agent::cni
