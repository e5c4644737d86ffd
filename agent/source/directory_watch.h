// SPDX-License-Identifier: Apache-2.0
// DirectoryWatch: one directory by path, its manifest files, and inotify on whatever directory the
// path names at the moment. Instances and watches of inotify are counted per user on the whole
// machine, so a container of this user can have taken them all: then there are no events, which
// follows() says, until Refresh() gets some. Single-thread.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/source/manifest_file.h"
#include "agent/source/manifest_table.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent {

inline constexpr size_t kMaxManifestFiles = 10'000;

class DirectoryWatch {
 public:
  explicit DirectoryWatch(std::string path) : path_(std::move(path)) {}

  // -1: there is none at the moment, which poll(2) leaves out.
  int inotify_fd() const { return inotify_.get(); }
  bool follows() const { return watch_ >= 0; }

  // What was done to a file. kWritten: it may not be whole yet.
  enum class Deed { kRenamedIn, kMade, kWritten, kClosed };
  // Which files changed, and what is known of it, in its order. `all`: of others that is not known.
  struct News {
    bool all = false;
    std::set<std::string> files;
    std::vector<std::pair<std::string, Deed>> deeds;
  };

  // Opens the path again and moves the watch if it is another directory now; true when it is, or
  // when nobody told what happened in it meanwhile. kNotFound when there is none.
  Result<bool> Refresh();
  // Non-blocking: what happened since the last call.
  News ReadEvents();
  Result<ManifestTable::Listing> List() const;
  Result<ManifestTable::Sightings> Look(const std::set<std::string>& files) const;
  int directory() const { return directory_.get(); }

 private:
  void Follow();
  void Unfollow();

  std::string path_;
  UniqueFd inotify_;
  UniqueFd directory_;
  int watch_ = -1;
};

}  // namespace holdfast::agent
