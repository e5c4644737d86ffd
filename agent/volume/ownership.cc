// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/ownership.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr mode_t kForFile = 0660;
constexpr mode_t kForDir = 02770;

bool IsRight(const struct stat& st, gid_t group, mode_t bits) {
  return st.st_gid == group && (st.st_mode & bits) == bits;
}

Result<void> Give(int fd, gid_t group, const std::string& what) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return Error::FromErrno(errno, StrCat("stat ", what));
  const mode_t bits = S_ISDIR(st.st_mode) ? kForDir : kForFile;
  if (IsRight(st, group, bits)) return {};
  if (::fchown(fd, static_cast<uid_t>(-1), group) != 0) {
    return Error::FromErrno(errno, StrCat("chown ", what));
  }
  if (::fchmod(fd, (st.st_mode & 07777) | bits) != 0) {
    return Error::FromErrno(errno, StrCat("chmod ", what));
  }
  return {};
}

Result<void> GiveTree(int dir, gid_t group) {
  ASSIGN_OR_RETURN(const auto names, sys::ListDirAt(dir, "."));
  for (const std::string& name : names) {
    struct stat st{};
    if (::fstatat(dir, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // a running container removed it
      return Error::FromErrno(errno, StrCat("stat ", name));
    }
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
      // Links and special files: the owner is all there is to set.
      if (::fchownat(dir, name.c_str(), static_cast<uid_t>(-1), group, AT_SYMLINK_NOFOLLOW) != 0 &&
          errno != ENOENT) {
        return Error::FromErrno(errno, StrCat("chown ", name));
      }
      continue;
    }
    auto fd = sys::OpenAt(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!fd) {
      if (fd.error().sys_errno() == ENOENT) continue;
      return std::move(fd.error());
    }
    RETURN_IF_ERROR(Give(fd->get(), group, name));
    if (S_ISDIR(st.st_mode)) RETURN_IF_ERROR(GiveTree(fd->get(), group));
  }
  return {};
}

}  // namespace

Result<void> GiveToGroup(int dir, gid_t group, bool only_on_mismatch) {
  struct stat st{};
  if (::fstat(dir, &st) != 0) return Error::FromErrno(errno, "stat volume");
  if (only_on_mismatch && IsRight(st, group, kForDir)) return {};
  RETURN_IF_ERROR(GiveTree(dir, group));
  // The top last: its state says that everything below is done.
  return Give(dir, group, "volume");
}

}  // namespace holdfast::agent
