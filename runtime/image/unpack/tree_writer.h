// SPDX-License-Identifier: Apache-2.0
// TreeWriter: builds one layer's directory tree out of hostile member names. Single-thread.
//
// Every name is cleaned first and reached by (parent fd, last part); parents are resolved by
// openat2 inside the root, the last part is never followed. Whiteouts become what overlayfs reads:
// character device 0/0, and directories to be marked opaque. The mark itself
// (trusted.overlay.opaque) needs CAP_SYS_ADMIN, which this side does not have: it is listed in the
// report and set by the reader of the report. Rules for one layer (OCI image-spec, layer.md):
//   - a whiteout hides only what lies below this layer, in whatever order members come;
//   - a whiteout below what this layer itself makes a file or a link hides nothing further;
//   - a later member of the same name replaces an earlier one, a directory keeps its content.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime::unpack {

struct Attributes {
  mode_t permissions = 0755;  // 07777
  uid_t uid = 0;
  gid_t gid = 0;
  timespec mtime{};
  std::vector<std::pair<std::string, std::string>> xattrs;  // already filtered
};

// What the reader of the report does with directory fds of its own.
struct LayerReport {
  std::vector<std::string> opaque;  // directories to mark; "" is the root
  // Directories that had no member of their own, and show in place of lower ones of that name.
  std::vector<std::string> implicit;
  uint64_t members = 0;
  uint64_t bytes = 0;
};

class TreeWriter {
 public:
  explicit TreeWriter(DirFd root);

  // `name` is clean and not "" except for Directory.
  Result<void> Directory(const std::string& name, const Attributes& attributes);
  // The caller writes the content and then calls FinishFile.
  Result<UniqueFd> CreateFile(const std::string& name);
  Result<void> FinishFile(int fd, const std::string& name, const Attributes& attributes);
  Result<void> Symlink(const std::string& name, const std::string& target,
                       const Attributes& attributes);
  Result<void> Hardlink(const std::string& name, const std::string& target);
  // S_IFCHR, S_IFBLK or S_IFIFO. A character device 0/0 is a whiteout, as overlayfs sees it.
  Result<void> Node(const std::string& name, mode_t type, dev_t device,
                    const Attributes& attributes);
  Result<void> Whiteout(const std::string& name);
  Result<void> Opaque(const std::string& directory);

  // Directories made so far that had no member of their own at that moment.
  uint64_t implicit_made() const { return implicit_made_; }

  // Sets the directories' times, fills the two lists of the report.
  Result<LayerReport> Finish();

 private:
  struct Place {  // where a member goes
    int parent;   // owned by cached_parent_
    std::string leaf;
    bool replaced;  // something of this layer that is no directory
  };

  Result<int> OpenParent(const std::string& directory);
  Result<DirFd> MakeParents(const std::string& directory);
  // `depth` becomes the number of directories above what is opened.
  Result<DirFd> OpenThroughSymlinks(const std::string& directory, int& depth);
  Result<DirFd> MakeImplicit(int parent, const std::string& path, std::string_view leaf,
                             int& depth);
  // Removes what is there (not a directory when `keep_directory`).
  Result<Place> Prepare(const std::string& name, bool keep_directory);
  // Whether something that is no directory lies at `directory` or above it.
  Result<bool> IsCovered(const std::string& directory) const;
  Result<void> RemoveExisting(int parent, const std::string& leaf);

  DirFd root_;
  struct stat root_stat_{};
  bool root_explicit_ = false;
  bool cached_ = false;
  std::string cached_name_;
  DirFd cached_parent_;
  std::set<std::string> opaque_;
  std::set<std::string> implicit_;
  uint64_t implicit_made_ = 0;
  std::map<std::string, timespec> directory_times_;
};

}  // namespace holdfast::runtime::unpack
