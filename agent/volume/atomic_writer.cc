// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/atomic_writer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/rollback.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/selinux.h"

namespace holdfast::agent {
namespace {

constexpr char kData[] = "..data";
constexpr char kNewData[] = "..data_tmp";
constexpr size_t kMostOfAName = 255;
constexpr size_t kMostOfAPath = 4096;
constexpr mode_t kVolumeMode = 0777;  // as a kubelet's; what contains it is the agent's alone
constexpr mode_t kDirMode = 0755;
// What a group gets of a volume that is only read.
constexpr mode_t kGroupOfFile = 0440;
constexpr mode_t kGroupOfDir = 02550;

using Files = std::map<std::string, VolumeFile>;

std::vector<std::string> PartsOf(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (!part.empty() && part != ".") parts.push_back(part);
    at = end + 1;
  }
  return parts;
}

// The content as a tree: files by clean paths, and every directory above one, the top ("") first.
struct Tree {
  Files files;
  std::set<std::string> dirs{""};

  // What is directly in a directory.
  std::set<std::string> NamesIn(const std::string& dir) const {
    std::set<std::string> names;
    const std::string prefix = dir.empty() ? "" : dir + "/";
    const auto add = [&](const std::string& path) {
      if (path.size() <= prefix.size() || !path.starts_with(prefix)) return;
      names.insert(path.substr(prefix.size(), path.find('/', prefix.size()) - prefix.size()));
    };
    for (const auto& [path, file] : files) add(path);
    return names;
  }
};

Result<Tree> TreeOf(const Files& files) {
  Tree tree;
  for (const auto& [path, file] : files) {
    RETURN_IF_ERROR(CheckVolumePath(path));
    const std::vector<std::string> parts = PartsOf(path);
    if (parts.empty()) return InvalidArgument(StrCat("invalid path: must name a file: ", path));
    for (size_t i = 1; i < parts.size(); ++i)
      tree.dirs.insert(Join(std::span(parts).first(i), "/"));
    tree.files[Join(parts, "/")] = file;
  }
  for (const std::string& dir : tree.dirs) {
    if (tree.files.contains(dir)) {
      return InvalidArgument(StrCat("invalid path: is a file and a directory: ", dir));
    }
  }
  return tree;
}

// "" when it is no link.
std::string LinkAt(int dir, const std::string& name) {
  std::string target(kMostOfAPath, '\0');
  const ssize_t n = ::readlinkat(dir, name.c_str(), target.data(), target.size());
  target.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return target;
}

// As a kubelet's: the time, and digits that make it unique.
std::string NewName() {
  const auto now = SystemClock().Wall().since_epoch;
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(now);
  const std::time_t seconds = whole.count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  ::strftime(text.data(), text.size(), "..%Y_%m_%d_%H_%M_%S.", &parts);
  return StrCat(text.data(), (now - whole).count());
}

bool HasBytes(int file, std::string_view wanted) {
  std::array<char, 16 * 1024> chunk{};
  bool same = true;
  ssize_t n = 0;
  while (same && (n = ::read(file, chunk.data(), chunk.size())) > 0) {
    const std::string_view read(chunk.data(), static_cast<size_t>(n));
    same = wanted.starts_with(read);
    if (same) wanted.remove_prefix(read.size());
  }
  ::explicit_bzero(chunk.data(), chunk.size());
  return same && n == 0 && wanted.empty();
}

class Writer {
 public:
  Writer(int volume, const Tree& tree, std::optional<gid_t> group)
      : volume_(volume), tree_(tree), group_(group) {}

  // 1. the new content beside the old one; 2. a link to it; 3. the moment: over the old link; 4. the links that people
  // see; 5. what nobody needs any more, also of calls that were killed.
  Result<void> Run() {
    std::string current = Current();
    if (current.empty()) {
      ASSIGN_OR_RETURN(current, WriteContent());
    }
    RETURN_IF_ERROR(MakeLinks());
    HOLDFAST_PAUSE_POINT("agent.volume.content_visible");
    return Tidy(current);
  }

 private:
  // --- what is there ---

  // The directory that shows, when it shows what is wanted; else "".
  std::string Current() const {
    const std::string name = LinkAt(volume_, kData);
    if (!name.starts_with("..") || name.find('/') != std::string::npos) return "";
    const auto dir = sys::OpenAt(volume_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!dir) return "";
    const bool is_right =
        std::all_of(tree_.dirs.begin(), tree_.dirs.end(),
                    [&](const std::string& path) { return HasDir(dir->get(), path); }) &&
        std::all_of(tree_.files.begin(), tree_.files.end(),
                    [&](const auto& file) { return HasFile(dir->get(), file.first, file.second); });
    return is_right ? name : "";
  }

  bool HasDir(int top, const std::string& path) const {
    const auto dir =
        sys::OpenInside(top, path.empty() ? "." : path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
                        sys::Resolve::kBeneath);
    struct stat st{};
    if (!dir || ::fstat(dir->get(), &st) != 0 || !IsMine(st, {}, DirMode())) return false;
    const auto names = sys::ListDirAt(dir->get(), ".");
    if (!names) return false;
    const std::set<std::string> wanted = tree_.NamesIn(path);
    return std::equal(names->begin(), names->end(), wanted.begin(), wanted.end());
  }

  bool HasFile(int top, const std::string& path, const VolumeFile& wanted) const {
    const auto file =
        sys::OpenInside(top, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, sys::Resolve::kBeneath);
    struct stat st{};
    return file && ::fstat(file->get(), &st) == 0 && S_ISREG(st.st_mode) &&
           IsMine(st, wanted.owner, FileMode(wanted)) && HasBytes(file->get(), *wanted.bytes);
  }

  bool IsMine(const struct stat& st, std::optional<uid_t> owner, mode_t mode) const {
    return st.st_uid == owner.value_or(::geteuid()) && (!group_ || st.st_gid == *group_) &&
           (st.st_mode & 07777) == mode;
  }
  mode_t DirMode() const { return group_ ? kDirMode | kGroupOfDir : kDirMode; }
  mode_t FileMode(const VolumeFile& file) const {
    return (group_ ? file.mode | kGroupOfFile : file.mode) & 07777;
  }

  // --- what is made ---

  // Returns the name of the directory that shows now.
  Result<std::string> WriteContent() {
    const std::string name = NewName();
    if (::mkdirat(volume_, name.c_str(), kDirMode) != 0) {
      return Error::FromErrno(errno, StrCat("mkdir ", name));
    }
    Rollback rollback;
    // What cannot be removed now is tidied away by the next call; the error that led here is told.
    rollback.Add([this, &name] { (void)sys::RemoveTreeAt(volume_, name); });
    ASSIGN_OR_RETURN(const UniqueFd dir,
                     sys::OpenAt(volume_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    for (const std::string& path : tree_.dirs) RETURN_IF_ERROR(MakeDir(dir.get(), path));
    HOLDFAST_PAUSE_POINT("agent.volume.content_begun");
    for (const auto& [path, file] : tree_.files) {
      RETURN_IF_ERROR(MakeFile(dir.get(), path, file));
    }
    HOLDFAST_PAUSE_POINT("agent.volume.content_written");
    RETURN_IF_ERROR(sys::RemoveTreeAt(volume_, kNewData));  // of a call that was killed
    RETURN_IF_ERROR(MakeLink(name, kNewData));
    HOLDFAST_PAUSE_POINT("agent.volume.content_linked");
    if (::renameat(volume_, kNewData, volume_, kData) != 0) {
      return Error::FromErrno(errno, StrCat("rename ", kNewData, " to ", kData));
    }
    HOLDFAST_PAUSE_POINT("agent.volume.content_shown");
    rollback.Release();
    return name;
  }

  Result<void> MakeDir(int top, const std::string& path) const {
    if (!path.empty() && ::mkdirat(top, path.c_str(), kDirMode) != 0) {
      return Error::FromErrno(errno, StrCat("mkdir ", path));
    }
    ASSIGN_OR_RETURN(const UniqueFd dir, sys::OpenInside(top, path.empty() ? "." : path,
                                                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
                                                         sys::Resolve::kBeneath));
    return Own(dir.get(), {}, DirMode(), path);
  }

  Result<void> MakeFile(int top, const std::string& path, const VolumeFile& file) const {
    ASSIGN_OR_RETURN(const UniqueFd made,
                     sys::OpenInside(top, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600,
                                     sys::Resolve::kBeneath));
    RETURN_IF_ERROR(WithContext(sys::WriteAll(made.get(), *file.bytes), StrCat("write ", path)));
    return Own(made.get(), file.owner, FileMode(file), path);
  }

  // The mode last: chown(2) may take bits away; and against the umask.
  Result<void> Own(int object, std::optional<uid_t> owner, mode_t mode,
                   const std::string& what) const {
    if ((owner || group_) && ::fchown(object, owner.value_or(static_cast<uid_t>(-1)),
                                      group_.value_or(static_cast<gid_t>(-1))) != 0) {
      return Error::FromErrno(errno, StrCat("chown ", what));
    }
    if (::fchmod(object, mode) != 0) return Error::FromErrno(errno, StrCat("chmod ", what));
    return {};
  }

  Result<void> MakeLink(const std::string& target, const std::string& name) const {
    if (::symlinkat(target.c_str(), volume_, name.c_str()) != 0) {
      return Error::FromErrno(errno, StrCat("symlink ", name));
    }
    if (group_ && ::fchownat(volume_, name.c_str(), static_cast<uid_t>(-1), *group_,
                             AT_SYMLINK_NOFOLLOW) != 0) {
      return Error::FromErrno(errno, StrCat("chown ", name));
    }
    return {};
  }

  Result<void> MakeLinks() const {
    for (const std::string& name : tree_.NamesIn("")) {
      const std::string target = StrCat(kData, "/", name);
      if (LinkAt(volume_, name) == target) continue;
      RETURN_IF_ERROR(sys::RemoveTreeAt(volume_, name));
      RETURN_IF_ERROR(MakeLink(target, name));
    }
    return {};
  }

  Result<void> Tidy(const std::string& current) const {
    const std::set<std::string> wanted = tree_.NamesIn("");
    ASSIGN_OR_RETURN(const auto names, sys::ListDirAt(volume_, "."));
    for (const std::string& name : names) {
      if (name == kData || name == current || wanted.contains(name)) continue;
      RETURN_IF_ERROR(sys::RemoveTreeAt(volume_, name));
      HOLDFAST_PAUSE_POINT("agent.volume.content_tidied");
    }
    return {};
  }

  const int volume_;
  const Tree& tree_;
  const std::optional<gid_t> group_;
};

}  // namespace

Result<void> CheckVolumePath(const std::string& path) {
  if (path.empty()) return InvalidArgument("invalid path: must not be empty: \"\"");
  if (path[0] == '/') {
    return InvalidArgument(StrCat("invalid path: must be relative path: ", path));
  }
  if (path.size() > kMostOfAPath || path.find('\0') != std::string::npos) {
    return InvalidArgument(
        StrCat("invalid path: must be less than or equal to ", kMostOfAPath, " characters"));
  }
  const std::vector<std::string> parts = PartsOf(path);
  for (const std::string& part : parts) {
    if (part == "..") {
      return InvalidArgument(StrCat("invalid path: must not contain '..': ", path));
    }
    if (part.size() > kMostOfAName) {
      return InvalidArgument(StrCat("invalid path: filenames must be less than or equal to ",
                                    kMostOfAName, " characters"));
    }
  }
  if (!parts.empty() && parts[0].starts_with("..")) {
    return InvalidArgument(StrCat("invalid path: must not start with '..': ", path));
  }
  return {};
}

Result<void> WriteAtomically(int parent, const std::string& name, const VolumeContent& content) {
  ASSIGN_OR_RETURN(const Tree tree, TreeOf(content.files));
  if (::mkdirat(parent, name.c_str(), kVolumeMode) != 0 && errno != EEXIST) {
    return Error::FromErrno(errno, StrCat("mkdir ", name));
  }
  HOLDFAST_PAUSE_POINT("agent.volume.content_dir_made");
  ASSIGN_OR_RETURN(const UniqueFd volume,
                   sys::OpenAt(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  const mode_t mode = content.group ? 02000 | kVolumeMode : kVolumeMode;
  if (content.group && ::fchown(volume.get(), static_cast<uid_t>(-1), *content.group) != 0) {
    return Error::FromErrno(errno, StrCat("chown ", name));
  }
  if (::fchmod(volume.get(), mode) != 0) return Error::FromErrno(errno, StrCat("chmod ", name));
  // What is added to a volume that containers have is theirs, too.
  std::string label;
  if (sys::HasSelinux()) {
    ASSIGN_OR_RETURN(label, sys::FileLabelOf(volume.get()));
  }
  ASSIGN_OR_RETURN(const auto labelled, sys::FileCreationLabel::Set(label));
  return Writer(volume.get(), tree, content.group).Run();
}

}  // namespace holdfast::agent
