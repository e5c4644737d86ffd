// SPDX-License-Identifier: Apache-2.0
// RecordLog: a file of lines that only grows, until its owner writes anew what still counts. Any
// number of lines is put on the disk with one sync. Single-thread.
//
// Killed or without power at any moment, the file holds every line up to the last Sync() that
// succeeded, perhaps later ones, and perhaps the beginning of one more, which Open() takes out.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent {

class RecordLog {
 public:
  // `name` in `directory`; need not be there. Temporaries of former writers are removed.
  static Result<RecordLog> Open(DirFd directory, std::string name);

  // What the file held when it was opened, the oldest first; once.
  std::vector<std::string> TakeLines() { return std::exchange(found_, {}); }

  // Lines without a line end. Kept in memory until Sync().
  void Append(std::string_view line);
  // Everything appended is on the disk. After an error it still waits.
  Result<void> Sync();
  bool IsSynced() const { return waiting_.empty() && !spoilt_; }

  // Most of it is of no account any more (or its end is not known): Replace() it instead.
  bool IsLongFor(size_t live_lines) const;
  // These lines and no others; on the disk when it succeeds, else the file is as it was.
  Result<void> Replace(const std::vector<std::string>& lines);

 private:
  RecordLog(DirFd directory, std::string name)
      : directory_(std::move(directory)), name_(std::move(name)) {}
  Result<void> Load();
  Result<void> OpenFile();

  DirFd directory_;
  std::string name_;
  UniqueFd file_;  // to append; none until there is something to write
  std::vector<std::string> found_;
  std::string waiting_;
  size_t lines_ = 0;     // in the file and waiting
  bool spoilt_ = false;  // how the file ends is not known
};

}  // namespace holdfast::agent
