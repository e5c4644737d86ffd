// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/confine.h"

#include <linux/landlock.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <span>

#include "holdfast/base/address_sanitizer.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/probe.h"

namespace holdfast::runtime::unpack {
namespace {

// Memory, time, end of process, and the bytes on what is open.
constexpr std::array kStreamCalls = {
    SCMP_SYS(read),          SCMP_SYS(write),
    SCMP_SYS(lseek),         SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),    SCMP_SYS(close),
    SCMP_SYS(brk),           SCMP_SYS(munmap),
    SCMP_SYS(mremap),        SCMP_SYS(madvise),
    SCMP_SYS(futex),         SCMP_SYS(getrandom),
    SCMP_SYS(clock_gettime), SCMP_SYS(exit_group),
    SCMP_SYS(rt_sigreturn),  SCMP_SYS(restart_syscall),
    SCMP_SYS(getpid),        SCMP_SYS(gettid),
    SCMP_SYS(sched_yield),
};

constexpr std::array kArchiveCalls = {SCMP_SYS(openat)};

constexpr std::array kLayerCalls = {
    SCMP_SYS(openat),    SCMP_SYS(openat2),   SCMP_SYS(pwrite64),        SCMP_SYS(mkdirat),
    SCMP_SYS(unlinkat),  SCMP_SYS(linkat),    SCMP_SYS(symlinkat),       SCMP_SYS(mknodat),
    SCMP_SYS(fchown),    SCMP_SYS(fchownat),  SCMP_SYS(fchmod),          SCMP_SYS(fchmodat),
    SCMP_SYS(fsetxattr), SCMP_SYS(utimensat), SCMP_SYS(ftruncate),       SCMP_SYS(getdents64),
    SCMP_SYS(fcntl),     SCMP_SYS(faccessat), SCMP_SYS(sync_file_range),
};

#if HOLDFAST_ADDRESS_SANITIZER
// What the sanitizers' own runtime asks for.
constexpr std::array kSanitizerCalls = {
    SCMP_SYS(mprotect), SCMP_SYS(sigaltstack), SCMP_SYS(prctl),         SCMP_SYS(openat),
    SCMP_SYS(readlink), SCMP_SYS(getuid),      SCMP_SYS(rt_sigprocmask)};
#else
constexpr std::array<int, 0> kSanitizerCalls = {};
#endif

struct FilterRelease {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};

Error Failed(std::string_view call, int code) {
  return Error::FromErrno(code < 0 ? -code : code, StrCat("sandbox: ", call));
}

Result<void> Allow(scmp_filter_ctx filter, std::span<const int> calls) {
  for (const int call : calls) {
    if (const int status = ::seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0); status != 0) {
      return Failed("seccomp rule", status);
    }
  }
  return {};
}

}  // namespace

Result<void> ConfineFiles(int directory) {
  if (sys::LandlockAbi() < sys::kUsefulLandlock) return {};  // the agent says so at its start
  constexpr uint64_t kAllowed = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
                                LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
                                LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER;
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs =
      kAllowed | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_SOCK;
  const UniqueFd ruleset(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0)));
  if (!ruleset) return Failed("landlock ruleset", errno);
  landlock_path_beneath_attr beneath{};
  beneath.allowed_access = kAllowed;
  beneath.parent_fd = directory;
  if (::syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) !=
      0) {
    return Failed("landlock rule", errno);
  }
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) {
    return Failed("landlock", errno);
  }
  return {};
}

Result<void> ConfineCalls(Cage cage) {
  const std::unique_ptr<void, FilterRelease> filter(::seccomp_init(SCMP_ACT_KILL_PROCESS));
  if (filter == nullptr) return Internal("sandbox: seccomp_init");
  RETURN_IF_ERROR(Allow(filter.get(), kStreamCalls));
  RETURN_IF_ERROR(Allow(filter.get(), kSanitizerCalls));
  if (cage == Cage::kArchive) RETURN_IF_ERROR(Allow(filter.get(), kArchiveCalls));
  if (cage == Cage::kLayer) RETURN_IF_ERROR(Allow(filter.get(), kLayerCalls));
  // Memory that can never be executed.
  const scmp_arg_cmp not_executable{2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0};
  const int status =
      ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, not_executable);
  if (status != 0) return Failed("seccomp rule for mmap", status);
  if (const int loaded = ::seccomp_load(filter.get()); loaded != 0)
    return Failed("seccomp", loaded);
  return {};
}

}  // namespace holdfast::runtime::unpack
