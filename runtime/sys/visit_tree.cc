// SPDX-License-Identifier: Apache-2.0
// Walking a tree that must stay as it is, so nothing can be renamed to the top as remove_tree.cc
// does. A few directories are open; for those above them it is remembered which they are and how
// far they were read. ".." leads back, and is believed only if it is the directory that we came
// from: else somebody has moved what we were in, and the walk begins again.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/tree.h"
#include "runtime/sys/dir_stream.h"

namespace holdfast::sys {
namespace {

constexpr size_t kOpenLevels = 16;
constexpr size_t kMostLevels = 1'000'000;
constexpr int kMostRestarts = 10;

class Walk {
 public:
  Walk(int top, const TreeVisitor& visit) : top_(top), visit_(visit) {}

  Result<void> Run() {
    RETURN_IF_ERROR(Enter(top_, "tree"));
    while (!levels_.empty()) {
      const dirent* entry = NextEntry(levels_.back().stream.get());
      if (entry != nullptr) {
        RETURN_IF_ERROR(Visit(entry->d_name));
      } else if (errno != 0) {
        return Error::FromErrno(errno, "read directory");
      } else {
        RETURN_IF_ERROR(Leave());
      }
    }
    return {};
  }

 private:
  struct Level {
    DirStream stream;  // none for a directory far above
    dev_t device;
    ino_t inode;
    long next;  // where to read on, telldir(3); of no stream only
  };

  Result<void> Visit(const std::string& name) {
    auto object = OpenEntry(::dirfd(levels_.back().stream.get()), name, O_PATH);
    if (!object) {
      // Removed meanwhile, or mounted on.
      const int code = object.error().sys_errno();
      if (code == ENOENT || code == EXDEV) return {};
      return std::move(object.error());
    }
    struct stat st{};
    if (::fstat(object->get(), &st) != 0) return Error::FromErrno(errno, StrCat("stat ", name));
    RETURN_IF_ERROR(visit_(object->get(), st, name));
    if (S_ISDIR(st.st_mode)) return Enter(object->get(), name);
    return {};
  }

  Result<void> Enter(int directory, const std::string& name) {
    if (levels_.size() == kMostLevels) {
      return InvalidArgument(StrCat("nested deeper than ", kMostLevels, " directories"));
    }
    auto fd = OpenEntry(directory, ".", O_RDONLY | O_DIRECTORY);
    if (!fd && fd.error().code() == Code::kNotFound) return {};
    if (!fd) return std::move(fd.error());
    RETURN_IF_ERROR(Push(std::move(*fd), name));
    if (levels_.size() > kOpenLevels) Close(levels_[levels_.size() - 1 - kOpenLevels]);
    return {};
  }

  static void Close(Level& level) {
    if (!level.stream) return;  // closed on the way to another of its directories
    level.next = ::telldir(level.stream.get());
    level.stream.reset();
  }

  Result<void> Push(UniqueFd fd, const std::string& name) {
    struct stat st{};
    if (::fstat(fd.get(), &st) != 0) return Error::FromErrno(errno, StrCat("stat ", name));
    ASSIGN_OR_RETURN(DirStream stream, ToDirStream(std::move(fd), name));
    levels_.push_back({std::move(stream), st.st_dev, st.st_ino, 0});
    return {};
  }

  Result<void> Leave() {
    const Level done = std::move(levels_.back());
    levels_.pop_back();
    if (levels_.empty() || levels_.back().stream) return {};
    auto up = OpenEntry(::dirfd(done.stream.get()), "..", O_RDONLY | O_DIRECTORY);
    struct stat st{};
    Level& above = levels_.back();
    if (!up || ::fstat(up->get(), &st) != 0 || st.st_dev != above.device ||
        st.st_ino != above.inode) {
      return Restart();
    }
    ASSIGN_OR_RETURN(above.stream, ToDirStream(std::move(*up), ".."));
    ::seekdir(above.stream.get(), above.next);
    return {};
  }

  Result<void> Restart() {
    if (++restarts_ > kMostRestarts) {
      return Unavailable("the tree was rearranged each time that it was walked");
    }
    levels_.clear();
    return Enter(top_, "tree");
  }

  const int top_;
  const TreeVisitor& visit_;
  std::vector<Level> levels_;
  int restarts_ = 0;
};

}  // namespace

Result<void> VisitTree(int top, const TreeVisitor& visit) { return Walk(top, visit).Run(); }

}  // namespace holdfast::sys
