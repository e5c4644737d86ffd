// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/fetch/fetch_cage.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/address_sanitizer.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/files.h"
#include "runtime/image/cage/privileges.h"
#include "runtime/image/fetch/network_calls.h"

namespace holdfast::runtime::fetch {
namespace {

constexpr size_t kMaxHostFile = 8 << 20;  // a hosts file that blocks advertisers is large

Error CageError(std::string_view call) {
  return Error::FromErrno(errno, StrCat("sandbox: ", call));
}

// What getaddrinfo(3) reads, by name below /etc. One that is missing is missing.
std::vector<std::pair<std::string, std::string>> ResolverFiles() {
  std::vector<std::pair<std::string, std::string>> files;
  for (const char* name : {"resolv.conf", "hosts", "host.conf", "gai.conf"}) {
    auto text = sys::ReadFileAt(AT_FDCWD, StrCat("/etc/", name), kMaxHostFile);
    if (text) files.emplace_back(name, std::move(*text));
  }
  // Both are part of the C library itself; every other source would be a file to load.
  files.emplace_back("nsswitch.conf", "hosts: files dns\n");
  return files;
}

Result<UniqueFd> NewTmpfs() {
  const UniqueFd context(static_cast<int>(::syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC)));
  if (!context) return CageError("fsopen tmpfs");
  if (::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return CageError("fsconfig tmpfs");
  }
  UniqueFd mount(
      static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC,
                                 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)));
  if (!mount) return CageError("fsmount tmpfs");
  return mount;
}

Result<void> FillRoot(int root) {
  if (::mkdirat(root, "etc", 0755) != 0) return CageError("mkdir etc");
  ASSIGN_OR_RETURN(const DirFd etc, sys::OpenDirAt(root, "etc"));
  for (const auto& [name, text] : ResolverFiles()) {
    ASSIGN_OR_RETURN(const UniqueFd file,
                     sys::OpenAt(etc.get(), name, O_WRONLY | O_CREAT | O_EXCL, 0644));
    RETURN_IF_ERROR(sys::WriteAll(file.get(), text));
  }
  return {};
}

Result<void> MakeRoot() {
  ASSIGN_OR_RETURN(const UniqueFd mount, NewTmpfs());
  RETURN_IF_ERROR(FillRoot(mount.get()));
  RETURN_IF_ERROR(cage::BecomeRoot(mount.get()));
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  if (::syscall(SYS_mount_setattr, mount.get(), "", AT_EMPTY_PATH, &attributes,
                sizeof attributes) != 0) {
    return CageError("make the root read-only");
  }
  return {};
}

Result<void> SetLimits() {
  RETURN_IF_ERROR(cage::Limit(RLIMIT_CORE, 0, "core"));
  RETURN_IF_ERROR(cage::Limit(RLIMIT_NOFILE, 512, "nofile"));
  RETURN_IF_ERROR(cage::Limit(RLIMIT_FSIZE, 0, "fsize"));
#if !HOLDFAST_ADDRESS_SANITIZER  // its shadow memory takes terabytes of addresses
  RETURN_IF_ERROR(cage::Limit(RLIMIT_AS, rlim_t{2} << 30, "as"));
#endif
  return {};
}

}  // namespace

Result<void> EnterCage() {
  ::umask(0022);
  if (::geteuid() == 0) {
    RETURN_IF_ERROR(MakeRoot());
    RETURN_IF_ERROR(cage::DropPrivileges({}));
  }
  RETURN_IF_ERROR(SetLimits());
  RETURN_IF_ERROR(cage::Seal());
  return ConfineCalls();
}

}  // namespace holdfast::runtime::fetch
