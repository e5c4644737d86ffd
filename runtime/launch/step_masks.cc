// SPDX-License-Identifier: Apache-2.0
// Masked and read-only paths. All of them lie on file systems that this launch has just mounted
// (proc, sys), yet each is opened inside the root and used by descriptor only; "does not exist" is
// the one failure that is no failure.
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

// Invalid when the path does not exist.
Result<UniqueFd> OpenIfThere(int root, const std::string& path) {
  auto fd = sys::OpenInside(root, path, O_PATH, 0, sys::Resolve::kInRoot);
  if (!fd && (fd.error().sys_errno() == ENOENT || fd.error().sys_errno() == ENOTDIR)) {
    return UniqueFd();
  }
  return fd;
}

// The container's own /dev/null, which must be that device: a volume on /dev may hold anything.
Result<UniqueFd> OpenNull(int root) {
  ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenInside(root, "dev/null", O_PATH | O_NOFOLLOW, 0,
                                                sys::Resolve::kBeneath));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return Error::FromErrno(errno, "fstat /dev/null");
  if (!S_ISCHR(st.st_mode) || st.st_rdev != ::makedev(1, 3)) {
    return Error(Code::kPermissionDenied, "/dev/null: not the null device");
  }
  return fd;
}

Result<MountFd> NewEmptyDirectory(const std::string& label) {
  ASSIGN_OR_RETURN(const UniqueFd context, sys::OpenFilesystem("tmpfs"));
  RETURN_IF_ERROR(sys::SetOption(context.get(), "size", "0"));
  RETURN_IF_ERROR(sys::SetOption(context.get(), "mode", "0555"));
  RETURN_IF_ERROR(SetLabelOfAll(context.get(), label));
  return sys::CreateMount(context.get(),
                          {.read_only = true, .no_suid = true, .no_dev = true, .no_exec = true});
}

Result<bool> IsMountRoot(int fd, const std::string& path) {
  struct statx st{};
  if (::statx(fd, "", AT_EMPTY_PATH, 0, &st) != 0) {
    return Error::FromErrno(errno, StrCat("statx ", path));
  }
  return (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

Result<void> SealPath(int root, const std::string& path) {
  ASSIGN_OR_RETURN(const UniqueFd target, OpenIfThere(root, path));
  if (!target) return {};
  ASSIGN_OR_RETURN(const bool is_mount, IsMountRoot(target.get(), path));
  if (is_mount) return sys::SetMountAttributes(target.get(), {.read_only = true}, false);
  ASSIGN_OR_RETURN(const MountFd copy, sys::CloneTree(target.get(), "", true));
  RETURN_IF_ERROR(sys::SetMountAttributes(copy.get(), {.read_only = true}, true));
  return sys::AttachMount(copy.get(), target.get(), path);
}

}  // namespace

Result<void> MaskPaths(Child& child, const model::LaunchPlan& plan) {
  if (plan.masked_paths.empty()) return {};
  const int root = child.root.get();
  UniqueFd null;
  MountFd empty;  // the first directory's mount; the others are copies of it
  for (const std::string& path : plan.masked_paths) {
    ASSIGN_OR_RETURN(const UniqueFd target, OpenIfThere(root, path));
    if (!target) continue;
    struct stat st{};
    if (::fstat(target.get(), &st) != 0) return Error::FromErrno(errno, StrCat("fstat ", path));
    MountFd mask;
    if (!S_ISDIR(st.st_mode)) {
      if (!null) {
        ASSIGN_OR_RETURN(null, OpenNull(root));
      }
      ASSIGN_OR_RETURN(mask, sys::CloneTree(null.get(), "", false));
    } else if (!empty) {
      ASSIGN_OR_RETURN(empty, NewEmptyDirectory(plan.selinux));
      RETURN_IF_ERROR(sys::AttachMount(empty.get(), target.get(), path));
      continue;
    } else {
      ASSIGN_OR_RETURN(mask, sys::CloneTree(empty.get(), "", false));
    }
    RETURN_IF_ERROR(sys::AttachMount(mask.get(), target.get(), path));
  }
  return {};
}

Result<void> SealPaths(Child& child, const model::LaunchPlan& plan) {
  for (const std::string& path : plan.read_only_paths) {
    RETURN_IF_ERROR(WithContext(SealPath(child.root.get(), path), path));
  }
  return {};
}

}  // namespace holdfast::runtime
