// SPDX-License-Identifier: Apache-2.0
// Masked and read-only paths. All of them lie on file systems that this launch has just mounted
// (proc, sys), yet each is opened inside the root and used by descriptor only; "does not exist" is
// the one failure that is no failure.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

// -1: the path does not exist.
Result<int> OpenIfThere(int root, const std::string& path) {
  auto fd = sys::OpenInside(root, path, O_PATH, 0, sys::Resolve::kInRoot);
  if (fd) return KeepOpen(std::move(*fd));
  if (fd.error().sys_errno() == ENOENT || fd.error().sys_errno() == ENOTDIR) return -1;
  return std::move(fd.error());
}

// The container's own /dev/null, which must be that device: a volume on /dev may hold anything.
Result<int> OpenNull(int root) {
  ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenInside(root, "dev/null", O_PATH | O_NOFOLLOW, 0,
                                                sys::Resolve::kBeneath));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return Error::FromErrno(errno, "fstat /dev/null");
  if (!S_ISCHR(st.st_mode) || st.st_rdev != ::makedev(1, 3)) {
    return Error(Code::kPermissionDenied, "/dev/null: not the null device");
  }
  return KeepOpen(std::move(fd));
}

Result<void> AttachCopy(int mount, int target, const std::string& path) {
  ASSIGN_OR_RETURN(MountFd copy, sys::CloneTree(mount, "", false));
  return sys::AttachMount(KeepOpen(std::move(copy)), target, path);
}

// Covers files with the null device and directories with one empty file system.
class Masks {
 public:
  Masks(int root, const std::string& label)
      : root_(root), options_(StrCat("size=0,mode=0555", LabelOption(label))) {}

  Result<void> Cover(const std::string& path) {
    ASSIGN_OR_RETURN(const int target, OpenIfThere(root_, path));
    if (target < 0) return {};
    struct stat st{};
    if (::fstat(target, &st) != 0) return Error::FromErrno(errno, StrCat("fstat ", path));
    return S_ISDIR(st.st_mode) ? CoverDirectory(target, path) : CoverFile(target, path);
  }

 private:
  Result<void> CoverFile(int target, const std::string& path) {
    if (null_ < 0) {
      ASSIGN_OR_RETURN(null_, OpenNull(root_));
    }
    return AttachCopy(null_, target, path);
  }

  Result<void> CoverDirectory(int target, const std::string& path) {
    if (empty_ >= 0) return AttachCopy(empty_, target, path);
    RETURN_IF_ERROR(sys::MountNew(
        "tmpfs", {.read_only = true, .no_suid = true, .no_dev = true, .no_exec = true}, options_,
        target, "."));
    // Opened again, the path leads onto the mount.
    ASSIGN_OR_RETURN(empty_, OpenIfThere(root_, path));
    return {};
  }

  int root_;
  std::string options_;
  int null_ = -1;
  int empty_ = -1;
};

Result<void> SealPath(int root, const std::string& path) {
  ASSIGN_OR_RETURN(const int target, OpenIfThere(root, path));
  if (target < 0) return {};
  // EINVAL: it is no mount yet.
  auto sealed = sys::SetMountAttributes(target, {.read_only = true}, false);
  if (sealed || sealed.error().sys_errno() != EINVAL) return sealed;
  ASSIGN_OR_RETURN(MountFd copy, sys::CloneTree(target, "", true));
  RETURN_IF_ERROR(sys::SetMountAttributes(copy.get(), {.read_only = true}, true));
  return sys::AttachMount(KeepOpen(std::move(copy)), target, path);
}

}  // namespace

Result<void> MaskPaths(Child& child, const model::LaunchPlan& plan) {
  Masks masks(child.root, plan.selinux);
  for (const std::string& path : plan.masked_paths) RETURN_IF_ERROR(masks.Cover(path));
  return {};
}

Result<void> SealPaths(Child& child, const model::LaunchPlan& plan) {
  for (const std::string& path : plan.read_only_paths) {
    RETURN_IF_ERROR(WithContext(SealPath(child.root, path), path));
  }
  return {};
}

}  // namespace holdfast::runtime
