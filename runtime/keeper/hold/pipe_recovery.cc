// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/hold/pipe_recovery.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/keeper/common/process_info.h"

namespace holdfast::runtime::keeper {
namespace {

int ToNumber(const std::string& text) {
  int number = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest == text.data() + text.size() ? number : -1;
}

bool IsPipe(int fd, uint64_t inode) {
  struct stat st{};
  return ::fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_ino == inode;
}

// The number under which the process has the pipe open, -1 for none.
int FindPipe(pid_t pid, uint64_t inode) {
  const std::string dir = StrCat("/proc/", pid, "/fd");
  auto names = sys::ListDirAt(AT_FDCWD, dir);
  if (!names) return -1;
  const std::string wanted = StrCat("pipe:[", inode, "]");
  for (const std::string& name : *names) {
    char target[64] = {};
    const std::string link = StrCat(dir, "/", name);
    if (::readlink(link.c_str(), target, sizeof target - 1) > 0 && wanted == target) {
      return ToNumber(name);
    }
  }
  return -1;
}

// The container may change its descriptors meanwhile: only the inode of what came out counts.
Result<UniqueFd> Fetch(int pidfd, int number, uint64_t inode) {
  const UniqueFd theirs(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd, number, 0)));
  if (!theirs) return Error::FromErrno(errno, "pidfd_getfd");
  if (!IsPipe(theirs.get(), inode)) return NotFound("pidfd_getfd: another file by now");
  ASSIGN_OR_RETURN(UniqueFd ours, sys::Reopen(theirs.get(), O_RDONLY | O_NONBLOCK));
  if (!IsPipe(ours.get(), inode)) return Internal("re-open log pipe: another file");
  return ours;
}

}  // namespace

Result<UniqueFd> RecoverLogPipe(const StartRecord& start, uint64_t inode) {
  if (auto pidfd = OpenExactProcess(start.pid, start.start_ticks); pidfd) {
    if (const int number = FindPipe(start.pid, inode); number >= 0) {
      if (auto fd = Fetch(pidfd->get(), number, inode); fd) return fd;
    }
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(AT_FDCWD, "/proc"));
  for (const std::string& name : names) {
    const int pid = ToNumber(name);
    if (pid <= 0 || pid == ::getpid()) continue;
    const PidFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd) continue;
    const int number = FindPipe(pid, inode);
    if (number < 0) continue;
    if (auto fd = Fetch(pidfd.get(), number, inode); fd) return fd;
  }
  return NotFound(StrCat("log pipe ", inode, " of ", start.id, ": no process holds it"));
}

}  // namespace holdfast::runtime::keeper
