// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>

#include "holdfast/base/rollback.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/tree.h"
#include "runtime/sys/dir_stream.h"

namespace holdfast::sys {
namespace {

Result<DirStream> OpenDirStream(int dir, const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenAt(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return ToDirStream(std::move(fd), path);
}

// The parts of a relative or absolute path, without empty ones and ".".
std::vector<std::string> Split(const std::string& path) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= path.size()) {
    size_t end = path.find('/', begin);
    if (end == std::string::npos) end = path.size();
    std::string part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Result<UniqueFd> OpenAt(int dir, const std::string& path, int flags, mode_t mode) {
  const int fd = ::openat(dir, path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) return Error::FromErrno(errno, StrCat("open ", path));
  return UniqueFd(fd);
}

Result<UniqueFd> Reopen(int fd, int flags) {
  return OpenAt(AT_FDCWD, StrCat("/proc/self/fd/", fd), flags);
}

Result<DirFd> OpenDir(const std::string& absolute_path) {
  return OpenDirAt(AT_FDCWD, absolute_path);
}

Result<DirFd> OpenDirAt(int dir, const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenAt(dir, path, O_PATH | O_DIRECTORY));
  return DirFd(fd.Release());
}

Result<UniqueFd> OpenInside(int root, const std::string& path, int flags, mode_t mode,
                            Resolve how) {
  open_how request{};
  request.flags = static_cast<uint64_t>(flags) | O_CLOEXEC;
  request.mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? mode : 0;
  request.resolve =
      RESOLVE_NO_MAGICLINKS | (how == Resolve::kInRoot ? RESOLVE_IN_ROOT : RESOLVE_BENEATH);
  if (how == Resolve::kNoLinks) request.resolve |= RESOLVE_NO_SYMLINKS;
  // EAGAIN: a rename elsewhere raced with ".." resolution; openat2(2) asks the caller to try again.
  for (int attempt = 0;; ++attempt) {
    const long fd = ::syscall(SYS_openat2, root, path.c_str(), &request, sizeof request);
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    if (errno != EAGAIN || attempt == 100) return Error::FromErrno(errno, StrCat("openat2 ", path));
  }
}

Result<DirFd> MakeDirs(int dir, const std::string& path, mode_t mode) {
  const std::vector<std::string> parts = Split(path);
  std::vector<std::string> prefixes = {path.starts_with('/') ? "/" : "."};
  for (const std::string& part : parts) prefixes.push_back(StrCat(prefixes.back(), "/", part));
  // From the end: mostly all of it is there, or all but the last.
  size_t length = parts.size();
  auto current = OpenDirAt(dir, prefixes[length]);
  while (!current && current.error().sys_errno() == ENOENT && length > 0) {
    current = OpenDirAt(dir, prefixes[--length]);
  }
  for (; current && length < parts.size(); ++length) {
    const std::string& part = parts[length];
    if (::mkdirat(current->get(), part.c_str(), mode) != 0 && errno != EEXIST) {
      return Error::FromErrno(errno, StrCat("mkdir ", part, " of ", path));
    }
    current = OpenDirAt(current->get(), part);
  }
  if (!current) return std::move(current.error()).Wrap(StrCat("make directories ", path));
  return current;
}

Result<DirFd> MakeDirsInside(int root, const std::string& path, mode_t mode) {
  // Each prefix is resolved from the root again, so that "a/../../b" and absolute symlinks stay in.
  const std::vector<std::string> parts = Split(path);
  std::vector<std::string> prefixes = {"."};
  for (const std::string& part : parts) prefixes.push_back(StrCat(prefixes.back(), "/", part));
  const auto open = [&](size_t length) {
    return OpenInside(root, prefixes[length], O_PATH | O_DIRECTORY, 0, Resolve::kInRoot);
  };
  // From the end: mostly all of it is there, or all but the last.
  size_t length = parts.size();
  auto current = open(length);
  while (!current && current.error().sys_errno() == ENOENT && length > 0) current = open(--length);
  for (; current && length < parts.size(); ++length) {
    if (::mkdirat(current->get(), parts[length].c_str(), mode) != 0 && errno != EEXIST) {
      return Error::FromErrno(errno, StrCat("mkdir ", parts[length], " of ", path));
    }
    current = open(length + 1);
  }
  if (!current) return std::move(current.error()).Wrap(StrCat("make directories ", path));
  return DirFd(current->Release());
}

Result<std::string> ReadFd(int fd, size_t limit) {
  std::string data;
  constexpr size_t kChunk = 16 * 1024;
  for (;;) {
    const size_t used = data.size();
    data.resize(used + kChunk);
    const ssize_t n = ::read(fd, data.data() + used, kChunk);
    if (n < 0 && errno == EINTR) {
      data.resize(used);
      continue;
    }
    if (n < 0) return Error::FromErrno(errno, "read");
    data.resize(used + static_cast<size_t>(n));
    if (data.size() > limit) {
      return Error(Code::kResourceExhausted,
                   StrCat("read: larger than the limit of ", limit, " bytes"));
    }
    if (n == 0) return data;
  }
}

Result<std::string> ReadFileAt(int dir, const std::string& path, size_t limit) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenAt(dir, path, O_RDONLY));
  return WithContext(ReadFd(fd.get(), limit), path);
}

Result<void> WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::FromErrno(errno, "write");
    data.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Result<void> WriteControlAt(int dir, const std::string& path, std::string_view data) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenAt(dir, path, O_WRONLY));
  ssize_t n = 0;
  do {
    n = ::write(fd.get(), data.data(), data.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return Error::FromErrno(errno, StrCat("write \"", data, "\" to ", path));
  return {};
}

namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";

std::string TemporaryName(const std::string& leaf) {
  return StrCat(".", leaf, ".", static_cast<int>(::gettid()), kTemporarySuffix);
}

// The thread that called a file so; 0 for a file of another kind.
pid_t WriterOf(std::string_view name, std::string_view prefix) {
  if (!name.starts_with('.') || !name.ends_with(kTemporarySuffix)) return 0;
  name.remove_prefix(1);
  name.remove_suffix(kTemporarySuffix.size());
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || !name.starts_with(prefix)) return 0;
  pid_t writer = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + dot + 1, end, writer);
  return parsed.ec == std::errc() && parsed.ptr == end && writer > 0 ? writer : 0;
}

bool IsAlive(pid_t thread) { return ::kill(thread, 0) == 0 || errno != ESRCH; }

}  // namespace

Result<void> WriteFileAtomicAt(int dir, const std::string& name, std::string_view data, mode_t mode,
                               bool durable) {
  const size_t slash = name.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : name.substr(0, slash + 1);
  const std::string leaf = slash == std::string::npos ? name : name.substr(slash + 1);
  ASSIGN_OR_RETURN(UniqueFd parent_fd, OpenAt(dir, parent, O_RDONLY | O_DIRECTORY));
  const std::string temporary = TemporaryName(leaf);

  Rollback rollback;
  auto opened = OpenAt(parent_fd.get(), temporary, O_WRONLY | O_CREAT | O_TRUNC, mode);
  // Told of the file that is meant: the other name is new with every thread.
  if (!opened) return Error::FromErrno(opened.error().sys_errno(), StrCat("write ", name));
  UniqueFd fd = std::move(*opened);
  rollback.Add([&] { ::unlinkat(parent_fd.get(), temporary.c_str(), 0); });
  RETURN_IF_ERROR(WithContext(WriteAll(fd.get(), data), name));
  if (::fchmod(fd.get(), mode) != 0) return Error::FromErrno(errno, StrCat("chmod ", name));
  if (durable && ::fsync(fd.get()) != 0) return Error::FromErrno(errno, StrCat("fsync ", name));
  // Before it has its name: to whoever watches the directory a close afterwards says that somebody was writing there.
  fd.Reset();
  if (::renameat(parent_fd.get(), temporary.c_str(), parent_fd.get(), leaf.c_str()) != 0) {
    return Error::FromErrno(errno, StrCat("rename to ", name));
  }
  rollback.Release();
  if (durable && ::fsync(parent_fd.get()) != 0) {
    return Error::FromErrno(errno, StrCat("fsync directory of ", name));
  }
  return {};
}

bool IsTemporaryName(std::string_view name) { return WriterOf(name, "") != 0; }

Result<void> RemoveTemporariesAt(int dir, const std::string& path, Writer writer,
                                 std::string_view prefix) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirAt(dir, path));
  for (const std::string& name : names) {
    const pid_t thread = WriterOf(name, prefix);
    if (thread == 0 || (writer == Writer::kDead && IsAlive(thread))) continue;
    // On a read-only disk it stays: nobody reads it.
    if (auto gone = RemoveFileAt(dir, StrCat(path, "/", name)); !gone) {
      if (gone.error().sys_errno() != EROFS) return gone;
    }
  }
  return {};
}

Result<void> RemoveFileAt(int dir, const std::string& name) {
  if (::unlinkat(dir, name.c_str(), 0) != 0 && errno != ENOENT) {
    return Error::FromErrno(errno, StrCat("unlink ", name));
  }
  return {};
}

Result<void> RemoveTreeAt(int dir, const std::string& name) {
  return RemoveTreeAt(dir, name, RemoveLimits{});
}

Result<std::vector<std::string>> ListDirAt(int dir, const std::string& path) {
  ASSIGN_OR_RETURN(DirStream stream, OpenDirStream(dir, path));
  std::vector<std::string> names;
  while (const dirent* entry = NextEntry(stream.get())) names.emplace_back(entry->d_name);
  if (errno != 0) return Error::FromErrno(errno, StrCat("readdir ", path));
  std::sort(names.begin(), names.end());
  return names;
}

bool ExistsAt(int dir, const std::string& path) {
  return ::faccessat(dir, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

WallTime ChangedAt(int dir, const std::string& path) {
  struct stat status{};
  if (::fstatat(dir, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return {};
  return {std::chrono::seconds(status.st_mtim.tv_sec) +
          std::chrono::nanoseconds(status.st_mtim.tv_nsec)};
}

Result<UniqueFd> SealedMemfd(const std::string& name, std::string_view data) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return Error::FromErrno(errno, StrCat("memfd_create ", name));
  RETURN_IF_ERROR(WithContext(WriteAll(fd.get(), data), StrCat("memfd ", name)));
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) !=
      0) {
    return Error::FromErrno(errno, StrCat("seal memfd ", name));
  }
  if (::lseek(fd.get(), 0, SEEK_SET) < 0)
    return Error::FromErrno(errno, StrCat("lseek memfd ", name));
  return fd;
}

}  // namespace holdfast::sys
