// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/cage/privileges.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::cage {
namespace {

Error CageError(std::string_view call) {
  return Error::FromErrno(errno, StrCat("sandbox: ", call));
}

struct CapFree {
  void operator()(cap_t caps) const { ::cap_free(caps); }
};

Result<void> DropBoundingSet(std::span<const cap_value_t> keep) {
  for (cap_value_t cap = 0; ::prctl(PR_CAPBSET_READ, cap) >= 0; ++cap) {
    bool kept = false;
    for (const cap_value_t k : keep) kept = kept || k == cap;
    if (!kept && ::prctl(PR_CAPBSET_DROP, cap) != 0) return CageError("drop bounding set");
  }
  return {};
}

}  // namespace

Result<void> Limit(__rlimit_resource resource, rlim_t value, std::string_view name) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return CageError(StrCat("getrlimit ", name));
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < value) value = limit.rlim_max;
  limit = {value, value};
  if (::setrlimit(resource, &limit) != 0) return CageError(StrCat("setrlimit ", name));
  return {};
}

Result<void> BecomeRoot(int tree) {
  if (::unshare(CLONE_NEWNS) != 0) return CageError("unshare mount namespace");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return CageError("make mounts private");
  }
  if (::syscall(SYS_move_mount, tree, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return CageError("move_mount");
  }
  if (::fchdir(tree) != 0) return CageError("fchdir");
  if (::syscall(SYS_pivot_root, ".", ".") == 0) {
    if (::umount2(".", MNT_DETACH) != 0) return CageError("umount of the old root");
  } else if (errno != EINVAL) {
    return CageError("pivot_root");
  }
  // EINVAL: the root is an initramfs, which cannot be pivoted away. chroot then, with Landlock and
  // seccomp around it; without CAP_SYS_CHROOT it is not left again.
  if (::chroot(".") != 0) return CageError("chroot");
  if (::chdir("/") != 0) return CageError("chdir");
  return {};
}

Result<void> DropPrivileges(std::span<const cap_value_t> keep) {
  RETURN_IF_ERROR(DropBoundingSet(keep));
  if (::prctl(PR_SET_KEEPCAPS, 1) != 0) return CageError("keep capabilities");
  if (::setgroups(0, nullptr) != 0) return CageError("setgroups");
  if (::setresgid(kNobody, kNobody, kNobody) != 0) return CageError("setresgid");
  if (::setresuid(kNobody, kNobody, kNobody) != 0) return CageError("setresuid");
  const std::unique_ptr<std::remove_pointer_t<cap_t>, CapFree> caps(::cap_init());
  if (caps == nullptr) return CageError("cap_init");
  const auto count = static_cast<int>(keep.size());
  if (count > 0 && (::cap_set_flag(caps.get(), CAP_PERMITTED, count, keep.data(), CAP_SET) != 0 ||
                    ::cap_set_flag(caps.get(), CAP_EFFECTIVE, count, keep.data(), CAP_SET) != 0)) {
    return CageError("cap_set_flag");
  }
  if (::cap_set_proc(caps.get()) != 0) return CageError("cap_set_proc");
  return {};
}

Result<void> Seal() {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return CageError("parent death signal");
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return CageError("not dumpable");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return CageError("no_new_privs");
  return {};
}

}  // namespace holdfast::runtime::cage
