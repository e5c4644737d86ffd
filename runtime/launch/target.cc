// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/target.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"

namespace holdfast::runtime {
namespace {

constexpr mode_t kDirectoryMode = 0755;
constexpr mode_t kFileMode = 0644;

Result<UniqueFd> MakeFile(int root, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string leaf = slash == std::string::npos ? path : path.substr(slash + 1);
  ASSIGN_OR_RETURN(const DirFd dir, sys::MakeDirsInside(root, parent, kDirectoryMode));
  // O_NOFOLLOW: a dangling symlink is refused, nothing is made where it points to.
  return sys::OpenInside(dir.get(), leaf, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, kFileMode,
                         sys::Resolve::kBeneath);
}

Result<UniqueFd> FindOrMakeFile(int root, const std::string& path) {
  auto found = sys::OpenInside(root, path, O_PATH, 0, sys::Resolve::kInRoot);
  if (!found && found.error().sys_errno() == ENOENT) found = MakeFile(root, path);
  if (!found) return found;
  struct stat st{};
  if (::fstat(found->get(), &st) != 0) return Error::FromErrno(errno, StrCat("fstat ", path));
  if (S_ISDIR(st.st_mode)) return InvalidArgument(StrCat("mount ", path, ": a directory"));
  return found;
}

Result<UniqueFd> FindOrMakeDirectory(int root, const std::string& path) {
  auto made = sys::MakeDirsInside(root, path, kDirectoryMode);
  if (made) return UniqueFd(made->Release());
  if (made.error().sys_errno() != ENOTDIR) return std::move(made.error());
  return InvalidArgument(StrCat("mount ", path, ": not a directory"));
}

Result<void> RefuseProcfs(int fd, const std::string& path) {
  struct statfs fs{};
  if (::fstatfs(fd, &fs) != 0) return Error::FromErrno(errno, StrCat("fstatfs ", path));
  if (fs.f_type == PROC_SUPER_MAGIC) {
    return Error(Code::kPermissionDenied, StrCat(path, ": nothing may be mounted on a procfs"));
  }
  return {};
}

}  // namespace

Result<UniqueFd> OrdinaryDirectory(int root, const std::string& path) {
  const std::string name = path.substr(path.find_first_not_of('/'));
  if (name.find('/') != std::string::npos) {
    return InvalidArgument(StrCat(path, ": must be directly below the root"));
  }
  const auto open = [&] { return sys::OpenAt(root, name, O_PATH | O_DIRECTORY | O_NOFOLLOW); };
  auto fd = open();
  if (!fd && fd.error().sys_errno() == ENOENT) {
    if (::mkdirat(root, name.c_str(), kDirectoryMode) != 0) {
      return Error::FromErrno(errno, StrCat("mkdir ", path));
    }
    fd = open();
  }
  if (!fd && (fd.error().sys_errno() == ENOTDIR || fd.error().sys_errno() == ELOOP)) {
    return InvalidArgument(StrCat(path, ": must be mounted on an ordinary directory"));
  }
  return fd;
}

Result<UniqueFd> MountTarget(int root, const std::string& path, bool directory) {
  auto found = directory ? FindOrMakeDirectory(root, path) : FindOrMakeFile(root, path);
  if (!found) return found;
  RETURN_IF_ERROR(RefuseProcfs(found->get(), path));
  return found;
}

Result<MountFd> NewProcfs() {
  ASSIGN_OR_RETURN(const UniqueFd context, sys::OpenFilesystem("proc"));
  return sys::CreateMount(context.get(), {.no_suid = true, .no_dev = true, .no_exec = true});
}

Result<MountFd> NewEmptyRoot() {
  ASSIGN_OR_RETURN(const UniqueFd context, sys::OpenFilesystem("tmpfs"));
  RETURN_IF_ERROR(sys::SetOption(context.get(), "mode", "0755"));
  RETURN_IF_ERROR(sys::SetOption(context.get(), "size", "1m"));
  return sys::CreateMount(context.get(), {.no_suid = true, .no_dev = true});
}

}  // namespace holdfast::runtime
