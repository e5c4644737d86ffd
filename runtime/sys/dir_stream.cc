// SPDX-License-Identifier: Apache-2.0
#include "runtime/sys/dir_stream.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"

namespace holdfast::sys {
namespace {

bool IsDot(const char* name) {
  return name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0));
}

}  // namespace

Result<DirStream> ToDirStream(UniqueFd directory, const std::string& path) {
  DIR* stream = ::fdopendir(directory.get());
  if (stream == nullptr) return Error::FromErrno(errno, StrCat("fdopendir ", path));
  (void)directory.Release();  // owned by the stream now
  return DirStream(stream);
}

const dirent* NextEntry(DIR* stream) {
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr || !IsDot(entry->d_name)) return entry;
  }
}

Result<UniqueFd> OpenEntry(int dir, const std::string& name, int flags) {
  open_how request{};
  request.flags = static_cast<uint64_t>(flags | O_NOFOLLOW | O_CLOEXEC);
  request.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, dir, name.c_str(), &request, sizeof request);
  if (fd < 0) return Error::FromErrno(errno, StrCat("open ", name));
  return UniqueFd(static_cast<int>(fd));
}

}  // namespace holdfast::sys
