// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <memory>

#include "holdfast/base/rollback.h"
#include "holdfast/base/strings.h"

namespace holdfast::sys {
namespace {

struct DirCloser {
  void operator()(DIR* d) const { ::closedir(d); }
};
using DirStream = std::unique_ptr<DIR, DirCloser>;

Result<DirStream> OpenDirStream(int dir, const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenAt(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  DIR* stream = ::fdopendir(fd.get());
  if (stream == nullptr) return Error::FromErrno(errno, StrCat("fdopendir ", path));
  (void)fd.Release();  // owned by the stream now
  return DirStream(stream);
}

bool IsDot(const char* name) {
  return name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0));
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

Result<dev_t> DeviceOf(int fd, const std::string& what) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return Error::FromErrno(errno, StrCat("fstat ", what));
  return st.st_dev;
}

Result<void> RemoveTree(int dir, const std::string& name, dev_t device) {
  if (::unlinkat(dir, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return Error::FromErrno(errno, StrCat("unlink ", name));
  {
    auto stream = OpenDirStream(dir, name);
    if (!stream) {
      if (stream.error().sys_errno() == ENOENT) return {};
      return std::move(stream.error());
    }
    const int fd = ::dirfd(stream->get());
    ASSIGN_OR_RETURN(const dev_t here, DeviceOf(fd, name));
    if (here != device) return Conflict(StrCat("remove ", name, ": something is mounted on it"));
    errno = 0;
    while (const dirent* entry = ::readdir(stream->get())) {
      if (IsDot(entry->d_name)) continue;
      RETURN_IF_ERROR(RemoveTree(fd, entry->d_name, device));
    }
  }
  if (::unlinkat(dir, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return Error::FromErrno(errno, StrCat("rmdir ", name));
  }
  return {};
}

}  // namespace

Result<UniqueFd> OpenAt(int dir, const std::string& path, int flags, mode_t mode) {
  const int fd = ::openat(dir, path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) return Error::FromErrno(errno, StrCat("open ", path));
  return UniqueFd(fd);
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
  // EAGAIN: a rename elsewhere raced with ".." resolution; openat2(2) asks the caller to try again.
  for (int attempt = 0;; ++attempt) {
    const long fd = ::syscall(SYS_openat2, root, path.c_str(), &request, sizeof request);
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    if (errno != EAGAIN || attempt == 100) return Error::FromErrno(errno, StrCat("openat2 ", path));
  }
}

Result<DirFd> MakeDirs(int dir, const std::string& path, mode_t mode) {
  ASSIGN_OR_RETURN(DirFd current, OpenDirAt(dir, path.starts_with('/') ? "/" : "."));
  for (const std::string& part : Split(path)) {
    if (::mkdirat(current.get(), part.c_str(), mode) != 0 && errno != EEXIST) {
      return Error::FromErrno(errno, StrCat("mkdir ", part, " of ", path));
    }
    auto next = OpenDirAt(current.get(), part);
    if (!next) return std::move(next.error()).Wrap(StrCat("make directories ", path));
    current = std::move(*next);
  }
  return current;
}

Result<DirFd> MakeDirsInside(int root, const std::string& path, mode_t mode) {
  // Each prefix is resolved from the root again, so that "a/../../b" and absolute symlinks stay in.
  std::string prefix = ".";
  ASSIGN_OR_RETURN(UniqueFd current,
                   OpenInside(root, prefix, O_PATH | O_DIRECTORY, 0, Resolve::kInRoot));
  for (const std::string& part : Split(path)) {
    prefix += "/" + part;
    auto next = OpenInside(root, prefix, O_PATH | O_DIRECTORY, 0, Resolve::kInRoot);
    if (!next && next.error().sys_errno() == ENOENT) {
      if (::mkdirat(current.get(), part.c_str(), mode) != 0 && errno != EEXIST) {
        return Error::FromErrno(errno, StrCat("mkdir ", part, " of ", path));
      }
      next = OpenInside(root, prefix, O_PATH | O_DIRECTORY, 0, Resolve::kInRoot);
    }
    if (!next) return std::move(next.error()).Wrap(StrCat("make directories ", path));
    current = std::move(*next);
  }
  return DirFd(current.Release());
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
  ASSIGN_OR_RETURN(UniqueFd fd,
                   OpenAt(parent_fd.get(), temporary, O_WRONLY | O_CREAT | O_TRUNC, mode));
  rollback.Add([&] { ::unlinkat(parent_fd.get(), temporary.c_str(), 0); });
  RETURN_IF_ERROR(WithContext(WriteAll(fd.get(), data), name));
  if (::fchmod(fd.get(), mode) != 0) return Error::FromErrno(errno, StrCat("chmod ", name));
  if (durable && ::fsync(fd.get()) != 0) return Error::FromErrno(errno, StrCat("fsync ", name));
  if (::renameat(parent_fd.get(), temporary.c_str(), parent_fd.get(), leaf.c_str()) != 0) {
    return Error::FromErrno(errno, StrCat("rename to ", name));
  }
  rollback.Release();
  if (durable && ::fsync(parent_fd.get()) != 0) {
    return Error::FromErrno(errno, StrCat("fsync directory of ", name));
  }
  return {};
}

Result<void> RemoveTemporariesAt(int dir, const std::string& path, Writer writer,
                                 std::string_view prefix) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirAt(dir, path));
  for (const std::string& name : names) {
    const pid_t thread = WriterOf(name, prefix);
    if (thread == 0 || (writer == Writer::kDead && IsAlive(thread))) continue;
    RETURN_IF_ERROR(RemoveFileAt(dir, StrCat(path, "/", name)));
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
  struct stat st{};
  if (::fstatat(dir, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return {};
    return Error::FromErrno(errno, StrCat("stat ", name));
  }
  // The parent's device: a tree whose top is a mount point is refused as well.
  const size_t slash = name.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : name.substr(0, slash + 1);
  struct stat parent_st{};
  if (::fstatat(dir, parent.c_str(), &parent_st, 0) != 0) {
    return Error::FromErrno(errno, StrCat("stat ", parent));
  }
  return RemoveTree(dir, name, parent_st.st_dev);
}

Result<std::vector<std::string>> ListDirAt(int dir, const std::string& path) {
  ASSIGN_OR_RETURN(DirStream stream, OpenDirStream(dir, path));
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (!IsDot(entry->d_name)) names.emplace_back(entry->d_name);
  }
  if (errno != 0) return Error::FromErrno(errno, StrCat("readdir ", path));
  std::sort(names.begin(), names.end());
  return names;
}

bool ExistsAt(int dir, const std::string& path) {
  return ::faccessat(dir, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
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
