// SPDX-License-Identifier: Apache-2.0
// Removing a tree top down with a fixed number of open directories. No ".." is ever taken: where
// the descriptors end, a directory that is not empty is renamed to the tree's top, so that every
// directory is reached from above, however deep it was and whoever renames directories meanwhile.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/tree.h"
#include "runtime/sys/dir_stream.h"

namespace holdfast::sys {
namespace {

constexpr const char* kMovedPrefix = ".holdfast-moved-";

// chattr -ia of what is open; whether that changed something.
bool ClearFlags(int fd) {
  int flags = 0;
  constexpr int kInTheWay = FS_IMMUTABLE_FL | FS_APPEND_FL;
  if (::ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0 || (flags & kInTheWay) == 0) return false;
  flags &= ~kInTheWay;
  return ::ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
}

// Opening a device or a FIFO could do something, so the kind is looked at first, on a descriptor
// that keeps the object fixed.
bool ClearFlagsOfEntry(int dir, const std::string& name) {
  const auto object = OpenEntry(dir, name, O_PATH);
  struct stat st{};
  if (!object || ::fstat(object->get(), &st) != 0) return false;
  if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return false;
  const auto file = Reopen(object->get(), O_RDONLY | O_NONBLOCK);
  return file && ClearFlags(file->get());
}

bool ClearFlagsAround(int dir, const std::string& name) {
  const bool of_directory = ClearFlags(dir);
  return ClearFlagsOfEntry(dir, name) || of_directory;
}

// unlink(2) or rmdir(2), whichever fits what stands there now; 0 or the errno.
int Unlink(int dir, const std::string& name, bool is_directory) {
  constexpr int kAttempts = 4;  // wrong kind, flags, and somebody who exchanges it meanwhile
  int error = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (::unlinkat(dir, name.c_str(), is_directory ? AT_REMOVEDIR : 0) == 0) return 0;
    error = errno;
    if (error == ENOENT) return 0;
    if (error == EISDIR || error == ENOTDIR) {
      is_directory = !is_directory;
    } else if (error != EPERM || !ClearFlagsAround(dir, name)) {
      return error == EEXIST ? ENOTEMPTY : error;  // rmdir(2) allows both
    }
  }
  return error;
}

class Remover {
 public:
  explicit Remover(const RemoveLimits& limits)
      : limits_(limits), most_levels_(std::max<size_t>(limits.open_levels, 2)) {}

  Result<void> Run(int parent, const std::string& name) {
    parent_ = parent;
    Remove(name, false);
    while (!levels_.empty()) {
      if (limits_.stop.stop_requested() || std::chrono::steady_clock::now() >= limits_.until) {
        return Error(Code::kDeadlineExceeded,
                     StrCat("remove ", name, ": not finished in the time that it was given"));
      }
      const dirent* entry = NextEntry(levels_.back().stream.get());
      if (entry == nullptr) {
        Leave();
      } else {
        Remove(entry->d_name, entry->d_type == DT_DIR);
      }
    }
    if (!top_left_) return {};
    return std::move(*failure_);
  }

 private:
  struct Level {
    DirStream stream;
    std::string name;
    bool progress = false;  // since its entries are being read: something went, or was put here
  };

  int Current() const { return levels_.empty() ? parent_ : ::dirfd(levels_.back().stream.get()); }

  void Progress() {
    if (!levels_.empty()) levels_.back().progress = true;
  }

  void Fail(Error error) {
    if (!failure_) failure_ = std::move(error);
    if (levels_.empty()) top_left_ = true;
  }

  void FailWith(int code, std::string_view call, const std::string& name) {
    if (code == EBUSY || code == EXDEV) {
      Fail(Conflict(StrCat("remove ", name, ": something is mounted on it")));
    } else {
      Fail(Error::FromErrno(code, StrCat(call, " ", name)));
    }
  }

  // An entry of the current directory.
  void Remove(const std::string& name, bool is_directory) {
    const int error = Unlink(Current(), name, is_directory);
    if (error == 0) {
      Progress();
    } else if (error != ENOTEMPTY) {
      FailWith(error, "remove", name);
    } else if (levels_.size() < most_levels_) {
      Enter(name);
    } else {
      MoveToTop(name);
    }
  }

  void Enter(const std::string& name) {
    auto fd = OpenEntry(Current(), name, O_RDONLY | O_DIRECTORY);
    if (!fd) {
      const int code = fd.error().sys_errno();
      // Gone or exchanged since: the next pass sees what is there now.
      if (code == ENOENT) return Progress();
      if (!levels_.empty() && (code == ENOTDIR || code == ELOOP)) return Progress();
      return FailWith(code, "open", name);
    }
    auto stream = ToDirStream(std::move(*fd), name);
    if (!stream) return Fail(std::move(stream.error()));
    levels_.push_back({std::move(*stream), name});
  }

  void MoveToTop(const std::string& name) {
    const int from = Current();
    const int top = ::dirfd(levels_.front().stream.get());
    for (bool cleared = false;;) {
      // An empty directory of that name is replaced, which is as good.
      const std::string moved = StrCat(kMovedPrefix, moved_++);
      if (::renameat(from, name.c_str(), top, moved.c_str()) == 0 || errno == ENOENT) break;
      const int code = errno;
      if (code == ENOTEMPTY || code == EEXIST || code == ENOTDIR || code == EISDIR) continue;
      if (code == EPERM && !cleared) {
        cleared = true;
        const bool of_top = ClearFlags(top);
        if (ClearFlagsAround(from, name) || of_top) continue;
      }
      return FailWith(code, "move", name);
    }
    Progress();
    levels_.front().progress = true;
  }

  // The current directory has been read to its end. It is read again as long as that gets on:
  // somebody may have put something there, we ourselves at the top.
  void Leave() {
    const int code = errno;
    Level done = std::move(levels_.back());
    levels_.pop_back();
    if (code != 0) return FailWith(code, "read", done.name);
    const int error = Unlink(Current(), done.name, true);
    if (error == 0) return Progress();
    if (error == ENOTEMPTY && done.progress) {
      done.progress = false;
      ::rewinddir(done.stream.get());
      levels_.push_back(std::move(done));
      return;
    }
    FailWith(error, "remove", done.name);
  }

  const RemoveLimits limits_;
  const size_t most_levels_;
  int parent_ = -1;
  std::vector<Level> levels_;  // the open directories, the tree's top first
  uint64_t moved_ = 0;
  std::optional<Error> failure_;  // the first one
  bool top_left_ = false;
};

}  // namespace

Result<void> RemoveTreeAt(int dir, const std::string& name, const RemoveLimits& limits) {
  const size_t slash = name.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : name.substr(0, slash + 1);
  auto parent_fd = OpenDirAt(dir, parent);
  if (!parent_fd && parent_fd.error().code() == Code::kNotFound) return {};
  if (!parent_fd) return std::move(parent_fd.error());
  return Remover(limits).Run(parent_fd->get(), name.substr(slash + 1));
}

}  // namespace holdfast::sys
