// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/hold/pipe_recovery.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/paths.h"
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

Result<UniqueFd> FetchPipe(const StartRecord& start, uint64_t inode) {
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

// Those of a container that nobody has registered yet as well: whoever wanted to may have died, and the next one will.
// Of one that has ended it is too late for that, and of one that is being taken away its registration went first.
bool IsWanted(const StartRecord& start, const Records& records, EndedToo ended) {
  if (ProcessExists(start.pid, start.start_ticks)) return true;
  return ended == EndedToo::kYes &&
         sys::ExistsAt(records.run_dir(), StrCat(kLogsDir, "/", start.id, "/spec"));
}

void RecoverOf(const StartRecord& start, const Records& records, FdStore& store, EndedToo ended) {
  const std::pair<LogPart, uint64_t> pipes[] = {{LogPart::kStdout, start.stdout_inode},
                                                {LogPart::kStderr, start.stderr_inode}};
  for (const auto& [part, inode] : pipes) {
    const std::string key = MakeLogKey(start.id, part);
    if (inode == 0 || store.Find(key) != nullptr || !IsWanted(start, records, ended)) continue;
    auto fd = FetchPipe(start, inode);
    if (!fd) continue;
    FdStore::Fds fds;
    fds.push_back(std::move(*fd));
    (void)store.Put(key, std::move(fds));
  }
}

}  // namespace

void RecoverLogPipes(const Records& records, FdStore& store, EndedToo ended) {
  const auto starts = records.ListStarts();
  if (!starts) return;
  for (const StartRecord& start : *starts) RecoverOf(start, records, store, ended);
}

void RecoverLogPipe(const std::string& key, const Records& records, FdStore& store) {
  const auto log = ParseLogKey(key);
  if (!log || !IsValidId(log->id)) return;
  const auto start = records.ReadStart(log->id);
  if (start && *start) RecoverOf(**start, records, store, EndedToo::kYes);
}

}  // namespace holdfast::runtime::keeper
