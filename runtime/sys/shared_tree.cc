// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/shared_tree.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::sys {
namespace {

Error Describe(int error, const std::string& path) {
  if (error == ELOOP || error == EXDEV || error == ENOTDIR) {
    return Conflict(StrCat("open ", path, ": ", ::strerrordesc_np(error),
                           "; symlinks and \"..\" are not followed here"));
  }
  return Error::FromErrno(error, StrCat("openat2 ", path));
}

Result<UniqueFd> OpenBelow(int dir, const std::string& path, int flags) {
  open_how request{};
  request.flags = static_cast<uint64_t>(flags) | O_CLOEXEC | O_NOFOLLOW;
  request.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  const long fd = ::syscall(SYS_openat2, dir, path.c_str(), &request, sizeof request);
  if (fd < 0) return Describe(errno, path);
  return UniqueFd(static_cast<int>(fd));
}

bool IsPlain(const struct stat& st) {
  return S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_uid == ::geteuid();
}

}  // namespace

Result<DirFd> OpenDirBelow(const std::string& root, const std::string& path) {
  ASSIGN_OR_RETURN(const DirFd top, OpenDir(root));
  ASSIGN_OR_RETURN(UniqueFd fd, OpenBelow(top.get(), path, O_PATH | O_DIRECTORY));
  return DirFd(fd.Release());
}

Result<UniqueFd> OpenRooted(const std::string& root, const std::string& path) {
  if (root.empty()) return OpenAt(AT_FDCWD, path, O_PATH);
  if (!path.starts_with(root + "/")) return InvalidArgument(StrCat(path, " is not below ", root));
  ASSIGN_OR_RETURN(DirFd dir, OpenDirBelow(root, path.substr(root.size() + 1)));
  return UniqueFd(dir.Release());
}

Result<DirFd> MakeDirsBelow(const std::string& root, const std::string& path, mode_t mode) {
  ASSIGN_OR_RETURN(DirFd current, MakeDirs(AT_FDCWD, root, mode));
  std::string_view rest = path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string part(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (::mkdirat(current.get(), part.c_str(), mode) != 0 && errno != EEXIST) {
      return Error::FromErrno(errno, StrCat("mkdir ", part, " of ", path));
    }
    auto next = OpenBelow(current.get(), part, O_PATH | O_DIRECTORY);
    if (!next) return std::move(next.error()).Wrap(StrCat("make directories ", path));
    current = DirFd(next->Release());
  }
  return current;
}

Result<UniqueFd> OpenPlainFileAt(int dir, const std::string& name, int flags) {
  ASSIGN_OR_RETURN(const UniqueFd found, OpenBelow(dir, name, O_PATH));
  struct stat st{};
  if (::fstat(found.get(), &st) != 0) return Error::FromErrno(errno, StrCat("fstat ", name));
  if (!IsPlain(st)) {
    return Conflict(
        StrCat("open ", name, ": not a regular file of this process' user with one name only"));
  }
  // Through the descriptor: the name may be another file's by now.
  return WithContext(Reopen(found.get(), flags), name);
}

bool IsPlainFileAt(int dir, const std::string& name, uint64_t max_size) {
  struct stat st{};
  return ::fstatat(dir, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && IsPlain(st) &&
         static_cast<uint64_t>(st.st_size) <= max_size;
}

}  // namespace holdfast::sys
