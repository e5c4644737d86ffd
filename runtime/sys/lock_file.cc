// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::sys {
namespace {

constexpr std::chrono::milliseconds kPause{10};

Result<UniqueFd> OpenLock(int dir, const std::string& name) {
  auto file = OpenAt(dir, name, O_RDWR | O_CREAT, 0600);
  if (!file && file.error().sys_errno() == EROFS) return OpenAt(dir, name, O_RDONLY);
  return file;
}

}  // namespace

Result<UniqueFd> TakeLock(int dir, const std::string& name, std::chrono::milliseconds patience) {
  ASSIGN_OR_RETURN(UniqueFd lock, OpenLock(dir, name));
  const auto until = std::chrono::steady_clock::now() + patience;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return Error::FromErrno(errno, StrCat("flock ", name));
    if (std::chrono::steady_clock::now() >= until) {
      return Conflict(StrCat("lock ", name, ": another process holds it"));
    }
    std::this_thread::sleep_for(kPause);
  }
  return lock;
}

}  // namespace holdfast::sys
