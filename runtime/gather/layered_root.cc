// SPDX-License-Identifier: Apache-2.0
#include "runtime/gather/layered_root.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <deque>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::runtime {
namespace {

constexpr int kMaxSymlinks = 40;  // as the kernel's own path walk

// One directory of the merged tree: the same directory of every layer that has it, topmost first.
using Merged = std::vector<DirFd>;

void PushParts(std::deque<std::string>& parts, const std::string& path) {
  std::vector<std::string> found;
  size_t begin = 0;
  while (begin < path.size()) {
    size_t end = path.find('/', begin);
    if (end == std::string::npos) end = path.size();
    std::string part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") found.push_back(std::move(part));
    begin = end + 1;
  }
  parts.insert(parts.begin(), found.begin(), found.end());
}

// An unprivileged reader cannot see trusted.*; such an image is then merged, never hidden wrongly.
bool IsOpaque(int dir) {
  char value[2] = {};
  for (const char* name : {"trusted.overlay.opaque", "user.overlay.opaque"}) {
    if (::fgetxattr(dir, name, value, sizeof value) == 1 && value[0] == 'y') return true;
  }
  return false;
}

// What the merged directory shows under a name.
struct Entry {
  enum class Kind { kNone, kDirectory, kLink, kOther };
  Kind kind = Kind::kNone;
  Merged directory;
  const DirFd* parent = nullptr;  // kLink, kOther: the layer's directory that holds it
};

Result<Entry> Lookup(const Merged& dirs, const std::string& name) {
  Entry entry;
  for (const DirFd& dir : dirs) {
    struct stat st{};
    if (::fstatat(dir.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return Error::FromErrno(errno, StrCat("stat ", name));
    }
    if (S_ISCHR(st.st_mode) && st.st_rdev == 0) break;  // whiteout: nothing below shows
    if (!S_ISDIR(st.st_mode)) {
      // A file hides what is below; under a directory it is itself hidden.
      if (entry.kind == Entry::Kind::kNone) {
        entry.kind = S_ISLNK(st.st_mode) ? Entry::Kind::kLink : Entry::Kind::kOther;
        entry.parent = &dir;
      }
      break;
    }
    entry.kind = Entry::Kind::kDirectory;
    ASSIGN_OR_RETURN(UniqueFd fd,
                     sys::OpenAt(dir.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    entry.directory.emplace_back(fd.Release());
    if (IsOpaque(entry.directory.back().get())) break;
  }
  return entry;
}

Result<std::string> ReadLink(int dir, const std::string& name) {
  char target[PATH_MAX];
  const ssize_t n = ::readlinkat(dir, name.c_str(), target, sizeof target);
  if (n < 0) return Error::FromErrno(errno, StrCat("readlink ", name));
  return std::string(target, static_cast<size_t>(n));
}

Result<std::string> ReadRegular(int dir, const std::string& name, const std::string& path,
                                size_t limit) {
  // O_NONBLOCK: should it be a FIFO after all, the open does not hang.
  ASSIGN_OR_RETURN(const UniqueFd fd,
                   sys::OpenAt(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return Error::FromErrno(errno, StrCat("stat ", path));
  if (!S_ISREG(st.st_mode)) return InvalidArgument(StrCat(path, ": not a regular file"));
  if (static_cast<uint64_t>(st.st_size) > limit) {
    return Error(Code::kResourceExhausted, StrCat(path, ": larger than ", limit, " bytes"));
  }
  return WithContext(sys::ReadFd(fd.get(), limit), path);
}

Result<Merged> Copy(const std::vector<DirFd>& dirs) {
  Merged copy;
  for (const DirFd& dir : dirs) {
    const int fd = ::fcntl(dir.get(), F_DUPFD_CLOEXEC, 3);
    if (fd < 0) return Error::FromErrno(errno, "fcntl F_DUPFD_CLOEXEC");
    copy.emplace_back(fd);
  }
  return copy;
}

}  // namespace

Result<LayeredRoot> LayeredRoot::Open(const std::vector<std::string>& layers) {
  LayeredRoot root;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenAt(AT_FDCWD, *layer, O_RDONLY | O_DIRECTORY));
    root.layers_.emplace_back(fd.Release());
  }
  return root;
}

Result<std::string> LayeredRoot::ReadFile(const std::string& path, size_t limit) const {
  std::deque<std::string> parts;
  PushParts(parts, path);
  std::vector<Merged> stack(1);  // from the root to the current directory, for ".."
  ASSIGN_OR_RETURN(stack[0], Copy(layers_));
  int links = 0;
  while (!parts.empty()) {
    const std::string name = std::move(parts.front());
    parts.pop_front();
    if (name == "..") {
      if (stack.size() > 1) stack.pop_back();
      continue;
    }
    ASSIGN_OR_RETURN(Entry entry, Lookup(stack.back(), name));
    if (entry.kind == Entry::Kind::kNone) return NotFound(StrCat(path, ": not in the image"));
    if (entry.kind == Entry::Kind::kDirectory) {
      stack.push_back(std::move(entry.directory));
    } else if (entry.kind == Entry::Kind::kLink) {
      if (++links > kMaxSymlinks) return InvalidArgument(StrCat(path, ": too many symbolic links"));
      ASSIGN_OR_RETURN(const std::string target, ReadLink(entry.parent->get(), name));
      if (target.starts_with('/')) stack.resize(1);
      PushParts(parts, target);
    } else if (parts.empty()) {
      return ReadRegular(entry.parent->get(), name, path, limit);
    } else {
      return NotFound(StrCat(path, ": not in the image"));
    }
  }
  return InvalidArgument(StrCat(path, ": a directory"));
}

}  // namespace holdfast::runtime
