// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/sandbox.h"

#include <fcntl.h>
#include <iconv.h>
#include <locale.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cwchar>
#include <span>

#include "holdfast/base/address_sanitizer.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/image/cage/privileges.h"
#include "runtime/image/unpack/confine.h"

namespace holdfast::runtime::unpack {
namespace {

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

Result<void> SetLimits() {
  RETURN_IF_ERROR(cage::Limit(RLIMIT_CORE, 0, "core"));
  RETURN_IF_ERROR(cage::Limit(RLIMIT_NOFILE, 2048, "nofile"));  // 1,024 levels deep, twice
  RETURN_IF_ERROR(cage::Limit(RLIMIT_CPU, 3600, "cpu"));
  RETURN_IF_ERROR(cage::Limit(RLIMIT_FSIZE, rlim_t{16} << 40, "fsize"));
#if !HOLDFAST_ADDRESS_SANITIZER  // its shadow memory takes terabytes of addresses
  RETURN_IF_ERROR(cage::Limit(RLIMIT_AS, rlim_t{1} << 30, "as"));
#endif
  return {};
}

// A detached copy of the directory's mount is taken before the namespace changes (open_tree refuses
// a mount of another namespace), laid over "/" in the new one and made the root.
Result<void> MakeRoot(int directory) {
  const UniqueFd tree(static_cast<int>(::syscall(
      SYS_open_tree, directory, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
  if (!tree) return SandboxError("open_tree");
  RETURN_IF_ERROR(cage::BecomeRoot(tree.get()));
  // The descriptor that came in knows the way up in the host's tree; the new one does not.
  if (::dup3(tree.get(), directory, O_CLOEXEC) < 0) return SandboxError("dup3");
  return {};
}

}  // namespace

Result<void> EnterSandbox(Cage kind, int directory) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return SandboxError("parent death signal");
  LoadCharacterSets();
  RETURN_IF_ERROR(SetLimits());
  ::umask(0);
  if (::geteuid() == 0) {
    if (kind != Cage::kStream) RETURN_IF_ERROR(MakeRoot(directory));
    if (kind == Cage::kArchive && ::chown("/", cage::kNobody, cage::kNobody) != 0)
      return SandboxError("chown");
    RETURN_IF_ERROR(cage::DropPrivileges(kind == Cage::kLayer
                                             ? std::span<const cap_value_t>(kLayerCapabilities)
                                             : std::span<const cap_value_t>()));
  }
  RETURN_IF_ERROR(cage::Seal());
  if (kind != Cage::kStream) RETURN_IF_ERROR(ConfineFiles(directory));
  return ConfineCalls(kind);
}

}  // namespace holdfast::runtime::unpack
