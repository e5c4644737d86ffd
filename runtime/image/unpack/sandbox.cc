// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/sandbox.h"

#include <fcntl.h>
#include <grp.h>
#include <iconv.h>
#include <locale.h>
#include <sched.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cwchar>
#include <memory>
#include <span>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/image/unpack/confine.h"

namespace holdfast::runtime::unpack {
namespace {

constexpr uid_t kNobody = 65534;

constexpr std::array kLayerCapabilities = {CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,
                                           CAP_FSETID, CAP_MKNOD,        CAP_SETFCAP};

Error SandboxError(std::string_view call) {
  return Error::FromErrno(errno, StrCat("sandbox: ", call));
}

// glibc loads character set tables by path on first use; done here, while "/" is still the host's
// and not a tree that a layer has written.
void LoadCharacterSets() {
  const iconv_t converter = ::iconv_open("UTF-8", "UTF-8");
  if (converter != reinterpret_cast<iconv_t>(-1)) ::iconv_close(converter);
  const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) return;
  const locale_t before = ::uselocale(utf8);
  wchar_t wide = 0;
  std::mbstate_t state{};
  (void)std::mbrtowc(&wide, "\xc3\xa4", 2, &state);
  ::uselocale(before);
  // Kept for the life of the process: freeing it would drop the tables.
}

Result<void> Limit(__rlimit_resource resource, rlim_t value, std::string_view name) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return SandboxError(StrCat("getrlimit ", name));
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < value) value = limit.rlim_max;
  limit = {value, value};
  if (::setrlimit(resource, &limit) != 0) return SandboxError(StrCat("setrlimit ", name));
  return {};
}

Result<void> SetLimits() {
  RETURN_IF_ERROR(Limit(RLIMIT_CORE, 0, "core"));
  RETURN_IF_ERROR(Limit(RLIMIT_NOFILE, 2048, "nofile"));  // 1,024 levels deep, twice
  RETURN_IF_ERROR(Limit(RLIMIT_CPU, 3600, "cpu"));
  RETURN_IF_ERROR(Limit(RLIMIT_FSIZE, rlim_t{16} << 40, "fsize"));
#ifndef __SANITIZE_ADDRESS__  // its shadow memory takes terabytes of addresses
  RETURN_IF_ERROR(Limit(RLIMIT_AS, rlim_t{1} << 30, "as"));
#endif
  return {};
}

// A detached copy of the directory's mount is taken before the namespace changes (open_tree refuses
// a mount of another namespace), laid over "/" in the new one and made the root.
Result<void> BecomeRoot(int directory) {
  const UniqueFd tree(static_cast<int>(::syscall(
      SYS_open_tree, directory, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
  if (!tree) return SandboxError("open_tree");
  if (::unshare(CLONE_NEWNS) != 0) return SandboxError("unshare mount namespace");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return SandboxError("make mounts private");
  }
  if (::syscall(SYS_move_mount, tree.get(), "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return SandboxError("move_mount");
  }
  if (::fchdir(tree.get()) != 0) return SandboxError("fchdir");
  if (::syscall(SYS_pivot_root, ".", ".") == 0) {
    if (::umount2(".", MNT_DETACH) != 0) return SandboxError("umount of the old root");
  } else if (errno != EINVAL) {
    return SandboxError("pivot_root");
  }
  // EINVAL: the root is an initramfs, which cannot be pivoted away. chroot then, with Landlock and
  // seccomp around it; without CAP_SYS_CHROOT it is not left again.
  if (::chroot(".") != 0) return SandboxError("chroot");
  if (::chdir("/") != 0) return SandboxError("chdir");
  // The descriptor that came in knows the way up in the host's tree; the new one does not.
  if (::dup3(tree.get(), directory, O_CLOEXEC) < 0) return SandboxError("dup3");
  return {};
}

struct CapFree {
  void operator()(cap_t caps) const { ::cap_free(caps); }
};

Result<void> DropBoundingSet(std::span<const cap_value_t> keep) {
  for (cap_value_t cap = 0; ::prctl(PR_CAPBSET_READ, cap) >= 0; ++cap) {
    bool kept = false;
    for (const cap_value_t k : keep) kept = kept || k == cap;
    if (!kept && ::prctl(PR_CAPBSET_DROP, cap) != 0) return SandboxError("drop bounding set");
  }
  return {};
}

Result<void> DropPrivileges(std::span<const cap_value_t> keep) {
  RETURN_IF_ERROR(DropBoundingSet(keep));
  if (::prctl(PR_SET_KEEPCAPS, 1) != 0) return SandboxError("keep capabilities");
  if (::setgroups(0, nullptr) != 0) return SandboxError("setgroups");
  if (::setresgid(kNobody, kNobody, kNobody) != 0) return SandboxError("setresgid");
  if (::setresuid(kNobody, kNobody, kNobody) != 0) return SandboxError("setresuid");
  const std::unique_ptr<std::remove_pointer_t<cap_t>, CapFree> caps(::cap_init());
  if (caps == nullptr) return SandboxError("cap_init");
  const auto count = static_cast<int>(keep.size());
  if (count > 0 && (::cap_set_flag(caps.get(), CAP_PERMITTED, count, keep.data(), CAP_SET) != 0 ||
                    ::cap_set_flag(caps.get(), CAP_EFFECTIVE, count, keep.data(), CAP_SET) != 0)) {
    return SandboxError("cap_set_flag");
  }
  if (::cap_set_proc(caps.get()) != 0) return SandboxError("cap_set_proc");
  return {};
}

}  // namespace

Result<void> EnterSandbox(Cage cage, int directory) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return SandboxError("parent death signal");
  LoadCharacterSets();
  RETURN_IF_ERROR(SetLimits());
  ::umask(0);
  if (::geteuid() == 0) {
    if (cage != Cage::kStream) RETURN_IF_ERROR(BecomeRoot(directory));
    if (cage == Cage::kArchive && ::chown("/", kNobody, kNobody) != 0) return SandboxError("chown");
    RETURN_IF_ERROR(DropPrivileges(cage == Cage::kLayer
                                       ? std::span<const cap_value_t>(kLayerCapabilities)
                                       : std::span<const cap_value_t>()));
  }
  // A change of user clears both.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return SandboxError("parent death signal");
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return SandboxError("not dumpable");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return SandboxError("no_new_privs");
  if (cage != Cage::kStream) RETURN_IF_ERROR(ConfineFiles(directory));
  return ConfineCalls(cage);
}

}  // namespace holdfast::runtime::unpack
