// SPDX-License-Identifier: Apache-2.0
// The pod's /dev/shm and, with shareProcessNamespace, its procfs, copied for one container. A
// procfs shows the pid namespace of whoever makes it, and while this child prepares a container it
// is in none of the pod's, so the sandbox made it. Who sees the processes of another container has a copy of that one's
// procfs, out of its mount namespace, and so has, of both, a pod whose sandbox was found in its container
// (containers/sandbox_recovery.h). All happens before the root is mounted: coming back into a mount namespace puts the process
// onto whatever is topmost on "/".
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/vfs.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "holdfast/sys/process.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

constexpr long kNsfsMagic = 0x6e736673;  // NSFS_MAGIC

bool IsOfKind(int mount, long magic) {
  struct statfs fs{};
  return ::fstatfs(mount, &fs) == 0 && fs.f_type == magic;
}

// Of the namespace that this process is in: its root, or what a container has at `path`. It may have put anything there.
Result<MountFd> CopyOfKind(const char* path, long magic, const char* name) {
  ASSIGN_OR_RETURN(MountFd root, sys::CloneTree(AT_FDCWD, "/", false));
  if (IsOfKind(root.get(), magic)) return root;
  ASSIGN_OR_RETURN(MountFd mount, sys::CloneTree(AT_FDCWD, path, false));
  if (IsOfKind(mount.get(), magic)) return mount;
  return Unsupported(
      StrCat("the container that it is to be shared with has no ", name, " on its ", path));
}

// Kernels that cannot copy a detached mount are given a mount namespace whose root it is: that is
// entered, copied from, and left again.
Result<MountFd> CopyFromNamespace(const Child& child, int mount_namespace, bool procfs) {
  ASSIGN_OR_RETURN(const UniqueFd own, sys::OpenAt(child.proc(), "self/ns/mnt", O_RDONLY));
  RETURN_IF_ERROR(sys::JoinNamespace(mount_namespace, CLONE_NEWNS, "of the shared mount"));
  auto copy = procfs ? CopyOfKind("/proc", PROC_SUPER_MAGIC, "procfs")
                     : CopyOfKind("/dev/shm", TMPFS_MAGIC, "tmpfs");
  RETURN_IF_ERROR(sys::JoinNamespace(own.get(), CLONE_NEWNS, "of the container"));
  return copy;
}

Result<MountFd> Copy(const Child& child, int source, bool procfs) {
  struct statfs fs{};
  if (::fstatfs(source, &fs) != 0) return Error::FromErrno(errno, "fstatfs shared mount");
  if (fs.f_type == kNsfsMagic) return CopyFromNamespace(child, source, procfs);
  return sys::CloneTree(source, "", false);
}

}  // namespace

Result<void> CopySharedMounts(Child& child, const model::LaunchPlan& plan) {
  using Kind = model::MountPlan::Kind;
  for (const model::MountPlan& mount : plan.mounts) {
    if (mount.kind == Kind::kShared) {
      ASSIGN_OR_RETURN(MountFd copy, Copy(child, child.Fd(mount.source), false));
      child.shared_memory = KeepOpen(std::move(copy));
    } else if (mount.kind == Kind::kProc && mount.source != model::kNoFd) {
      ASSIGN_OR_RETURN(MountFd copy, Copy(child, child.Fd(mount.source), true));
      child.procfs = KeepOpen(std::move(copy));
    }
  }
  return {};
}

}  // namespace holdfast::runtime
