// SPDX-License-Identifier: Apache-2.0
// DirectoryWatch: one directory by path, its manifest files, and inotify on whatever directory the
// path names at the moment. Single-thread.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "agent/source/manifest_file.h"
#include "agent/source/manifest_table.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent {

inline constexpr size_t kMaxManifestFiles = 10'000;

class DirectoryWatch {
 public:
  static Result<DirectoryWatch> Open(std::string path);

  int inotify_fd() const { return inotify_.get(); }

  // Which files changed. `all`: of others that is not known.
  struct News {
    bool all = false;
    std::set<std::string> files;
  };

  // Opens the path again and moves the watch if it is another directory now; true when it is.
  // kNotFound when there is none.
  Result<bool> Refresh();
  // Non-blocking; tells the table what happened.
  News ReadEvents(ManifestTable& table, BootTime now);
  Result<ManifestTable::Listing> List() const;
  Result<ManifestTable::Sightings> Look(const std::set<std::string>& files) const;
  int directory() const { return directory_.get(); }

 private:
  DirectoryWatch(std::string path, UniqueFd inotify);
  Result<void> Watch(UniqueFd directory);

  std::string path_;
  UniqueFd inotify_;
  UniqueFd directory_;
  int watch_ = -1;
};

}  // namespace holdfast::agent
