// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/tree_writer.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/tree.h"
#include "runtime/image/unpack/member_name.h"

namespace holdfast::runtime::unpack {
namespace {

constexpr int kMaxDepth = 1024;
constexpr mode_t kImplicitMode = 0755;

Error Failed(std::string_view call, std::string_view name) {
  return Error::FromErrno(errno, StrCat(call, " ", Printable(name)));
}

bool IsWhiteout(const struct stat& st) {
  return S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
}

Result<void> SetXattrs(int fd, const std::string& name, const Attributes& attributes) {
  for (const auto& [key, value] : attributes.xattrs) {
    if (::fsetxattr(fd, key.c_str(), value.data(), value.size(), 0) == 0) continue;
    // A file system without user attributes loses nothing that a container can depend on.
    if (errno == EOPNOTSUPP && key.starts_with("user.")) continue;
    return Failed(StrCat("setxattr ", Printable(key), " on"), name);
  }
  return {};
}

// Owner first: chown(2) clears set-user-ID and security.capability.
Result<void> SetAttributes(int fd, const std::string& name, const Attributes& attributes) {
  if (::fchown(fd, attributes.uid, attributes.gid) != 0) return Failed("chown", name);
  if (::fchmod(fd, attributes.permissions) != 0) return Failed("chmod", name);
  return SetXattrs(fd, name, attributes);
}

}  // namespace

TreeWriter::TreeWriter(DirFd root) : root_(std::move(root)) { ::fstat(root_.get(), &root_stat_); }

// A parent reached through a symbolic link of this layer stays inside the root; its depth is
// counted, since links could otherwise nest directories without end.
Result<DirFd> TreeWriter::OpenThroughSymlinks(const std::string& directory, int& depth) {
  ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenInside(root_.get(), directory, O_PATH | O_DIRECTORY, 0,
                                                sys::Resolve::kInRoot));
  ASSIGN_OR_RETURN(UniqueFd up, sys::OpenAt(fd.get(), ".", O_PATH | O_DIRECTORY));
  for (depth = 0; depth <= kMaxDepth; ++depth) {
    struct stat st{};
    if (::fstat(up.get(), &st) != 0) return Failed("stat", directory);
    if (st.st_ino == root_stat_.st_ino && st.st_dev == root_stat_.st_dev) break;
    ASSIGN_OR_RETURN(up, sys::OpenAt(up.get(), "..", O_PATH | O_DIRECTORY));
  }
  return DirFd(fd.Release());
}

Result<DirFd> TreeWriter::MakeImplicit(int parent, const std::string& path, std::string_view leaf,
                                       int& depth) {
  if (++depth > kMaxDepth) {
    return InvalidArgument(StrCat("directory ", Printable(path), ": nested too deeply"));
  }
  const std::string name(leaf);
  struct stat st{};
  const bool there = ::fstatat(parent, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
  if (there && IsWhiteout(st)) {
    // Deleted and used again in one layer: what lay below stays hidden.
    if (::unlinkat(parent, name.c_str(), 0) != 0) return Failed("unlink", path);
    opaque_.insert(path);
  } else if (!there) {
    implicit_.insert(path);
  }
  if (!there || IsWhiteout(st)) {
    if (::mkdirat(parent, name.c_str(), kImplicitMode) != 0) return Failed("mkdir", path);
    if (::fchmodat(parent, name.c_str(), kImplicitMode, 0) != 0) return Failed("chmod", path);
    ++implicit_made_;
  } else if (S_ISLNK(st.st_mode)) {
    return OpenThroughSymlinks(path, depth);
  } else if (!S_ISDIR(st.st_mode)) {
    return InvalidArgument(StrCat("member below ", Printable(path), ", which is not a directory"));
  }
  ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenAt(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  return DirFd(fd.Release());
}

Result<DirFd> TreeWriter::MakeParents(const std::string& directory) {
  ASSIGN_OR_RETURN(DirFd current, sys::OpenDirAt(root_.get(), "."));
  int depth = 0;
  size_t end = 0;
  while (end < directory.size()) {
    const size_t begin = end == 0 ? 0 : end + 1;
    end = directory.find('/', begin);
    if (end == std::string::npos) end = directory.size();
    const std::string_view leaf = std::string_view(directory).substr(begin, end - begin);
    ASSIGN_OR_RETURN(current, MakeImplicit(current.get(), directory.substr(0, end), leaf, depth));
  }
  return current;
}

// Members come in tree order, so the last parent is kept.
Result<int> TreeWriter::OpenParent(const std::string& directory) {
  if (cached_ && cached_name_ == directory) return cached_parent_.get();
  cached_ = false;
  ASSIGN_OR_RETURN(cached_parent_, MakeParents(directory));
  cached_name_ = directory;
  cached_ = true;
  return cached_parent_.get();
}

Result<void> TreeWriter::RemoveExisting(int parent, const std::string& leaf) {
  // A directory that goes may be the kept parent of a later member.
  cached_ = false;
  // All levels open: the cage knows no rename.
  sys::RemoveLimits limits;
  limits.open_levels = kMaxDepth + 1;
  return sys::RemoveTreeAt(parent, leaf, limits);
}

Result<TreeWriter::Place> TreeWriter::Prepare(const std::string& name, bool keep_directory) {
  if (name.empty()) return InvalidArgument("a member that is no directory is named \"/\"");
  ASSIGN_OR_RETURN(const int parent, OpenParent(std::string(ParentOf(name))));
  Place place{parent, std::string(LeafOf(name)), false};
  struct stat st{};
  if (::fstatat(parent, place.leaf.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return place;
    return Failed("stat", name);
  }
  place.replaced = !S_ISDIR(st.st_mode);
  if (keep_directory && S_ISDIR(st.st_mode)) return place;
  if (!S_ISDIR(st.st_mode)) {
    if (::unlinkat(parent, place.leaf.c_str(), 0) != 0) return Failed("unlink", name);
    return place;
  }
  RETURN_IF_ERROR(RemoveExisting(parent, place.leaf));
  return place;
}

Result<void> TreeWriter::Directory(const std::string& name, const Attributes& attributes) {
  directory_times_[name] = attributes.mtime;
  implicit_.erase(name);
  if (name.empty()) {
    ASSIGN_OR_RETURN(UniqueFd root, sys::OpenAt(root_.get(), ".", O_RDONLY | O_DIRECTORY));
    root_explicit_ = true;
    return SetAttributes(root.get(), "/", attributes);
  }
  ASSIGN_OR_RETURN(const Place place, Prepare(name, true));
  // What was there, a whiteout or a file, hid all that lies below this layer.
  if (place.replaced) opaque_.insert(name);
  if (::mkdirat(place.parent, place.leaf.c_str(), 0700) != 0 && errno != EEXIST) {
    return Failed("mkdir", name);
  }
  ASSIGN_OR_RETURN(UniqueFd fd,
                   sys::OpenAt(place.parent, place.leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return SetAttributes(fd.get(), name, attributes);
}

Result<UniqueFd> TreeWriter::CreateFile(const std::string& name) {
  ASSIGN_OR_RETURN(const Place place, Prepare(name, false));
  return sys::OpenAt(place.parent, place.leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
}

Result<void> TreeWriter::FinishFile(int fd, const std::string& name, const Attributes& attributes) {
  RETURN_IF_ERROR(SetAttributes(fd, name, attributes));
  const timespec times[2] = {attributes.mtime, attributes.mtime};
  if (::futimens(fd, times) != 0) return Failed("utimens", name);
  return {};
}

Result<void> TreeWriter::Symlink(const std::string& name, const std::string& target,
                                 const Attributes& attributes) {
  ASSIGN_OR_RETURN(const Place place, Prepare(name, false));
  if (::symlinkat(target.c_str(), place.parent, place.leaf.c_str()) != 0) {
    return Failed("symlink", name);
  }
  if (::fchownat(place.parent, place.leaf.c_str(), attributes.uid, attributes.gid,
                 AT_SYMLINK_NOFOLLOW) != 0) {
    return Failed("chown", name);
  }
  const timespec times[2] = {attributes.mtime, attributes.mtime};
  if (::utimensat(place.parent, place.leaf.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
    return Failed("utimens", name);
  }
  return {};
}

Result<void> TreeWriter::Hardlink(const std::string& name, const std::string& target) {
  if (target.empty()) return InvalidArgument(StrCat("hard link ", Printable(name), " to \"/\""));
  if (name == target) {
    return InvalidArgument(StrCat("hard link ", Printable(name), " to itself"));
  }
  // O_PATH on the target's parent only; linkat does not follow the last part.
  const std::string target_parent =
      target.find('/') == std::string::npos ? std::string(".") : std::string(ParentOf(target));
  ASSIGN_OR_RETURN(UniqueFd from, sys::OpenInside(root_.get(), target_parent, O_PATH | O_DIRECTORY,
                                                  0, sys::Resolve::kInRoot));
  const std::string target_leaf(LeafOf(target));
  struct stat st{};
  if (::fstatat(from.get(), target_leaf.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
    return Failed(StrCat("hard link ", Printable(name), ": stat target"), target);
  }
  if (S_ISDIR(st.st_mode) || IsWhiteout(st)) {
    return InvalidArgument(StrCat("hard link ", Printable(name), " to ", Printable(target),
                                  ", which is a directory or deleted"));
  }
  ASSIGN_OR_RETURN(const Place place, Prepare(name, false));
  if (::linkat(from.get(), target_leaf.c_str(), place.parent, place.leaf.c_str(), 0) != 0) {
    return Failed(StrCat("hard link ", Printable(name), " to"), target);
  }
  return {};
}

Result<void> TreeWriter::Node(const std::string& name, mode_t type, dev_t device,
                              const Attributes& attributes) {
  if (S_ISCHR(type) && device == makedev(0, 0)) return Whiteout(name);
  ASSIGN_OR_RETURN(const Place place, Prepare(name, false));
  if (::mknodat(place.parent, place.leaf.c_str(), type | 0600, device) != 0) {
    return Failed("mknod", name);
  }
  if (::fchownat(place.parent, place.leaf.c_str(), attributes.uid, attributes.gid,
                 AT_SYMLINK_NOFOLLOW) != 0) {
    return Failed("chown", name);
  }
  // Follows links, but the last part was made one call ago and nobody else writes here.
  if (::fchmodat(place.parent, place.leaf.c_str(), attributes.permissions, 0) != 0) {
    return Failed("chmod", name);
  }
  const timespec times[2] = {attributes.mtime, attributes.mtime};
  if (::utimensat(place.parent, place.leaf.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
    return Failed("utimens", name);
  }
  return {};
}

// Links are not followed: a link hides what lay below its name in lower layers, as a file does, and
// what it leads to has a name of its own.
Result<bool> TreeWriter::IsCovered(const std::string& directory) const {
  if (directory.empty()) return false;
  const auto found =
      sys::OpenInside(root_.get(), directory, O_PATH | O_NOFOLLOW, 0, sys::Resolve::kNoLinks);
  if (!found) {
    const int code = found.error().sys_errno();
    if (code == ENOENT) return false;
    if (code == ENOTDIR || code == ELOOP) return true;
    return found.error();
  }
  struct stat st{};
  if (::fstat(found->get(), &st) != 0) return Failed("stat", directory);
  return !S_ISDIR(st.st_mode);
}

Result<void> TreeWriter::Whiteout(const std::string& name) {
  const std::string above(ParentOf(name));
  ASSIGN_OR_RETURN(const bool covered, IsCovered(above));
  if (covered) return {};
  ASSIGN_OR_RETURN(const int parent, OpenParent(above));
  const std::string leaf(LeafOf(name));
  struct stat st{};
  if (::fstatat(parent, leaf.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) {
    // This layer's own content stays; a directory of it must not let the lower one show through.
    if (S_ISDIR(st.st_mode)) {
      opaque_.insert(name);
      implicit_.erase(name);
    }
    return {};
  }
  if (errno != ENOENT) return Failed("stat", name);
  if (::mknodat(parent, leaf.c_str(), S_IFCHR, makedev(0, 0)) != 0) return Failed("whiteout", name);
  return {};
}

Result<void> TreeWriter::Opaque(const std::string& directory) {
  ASSIGN_OR_RETURN(const bool covered, IsCovered(directory));
  if (covered) return {};
  RETURN_IF_ERROR(OpenParent(directory));
  opaque_.insert(directory);
  return {};
}

Result<LayerReport> TreeWriter::Finish() {
  for (const auto& [name, mtime] : directory_times_) {
    auto fd = name.empty() ? sys::OpenAt(root_.get(), ".", O_RDONLY | O_DIRECTORY)
                           : sys::OpenInside(root_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                                             0, sys::Resolve::kInRoot);
    if (!fd) continue;  // replaced by a later member
    const timespec times[2] = {mtime, mtime};
    if (::futimens(fd->get(), times) != 0) return Failed("utimens", name);
  }
  LayerReport report;
  report.opaque.assign(opaque_.begin(), opaque_.end());
  report.implicit.assign(implicit_.begin(), implicit_.end());
  if (!root_explicit_) report.implicit.insert(report.implicit.begin(), std::string());
  return report;
}

}  // namespace holdfast::runtime::unpack
