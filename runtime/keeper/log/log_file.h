// SPDX-License-Identifier: Apache-2.0
// LogFile: a container's log file in its directory, with its rotated predecessors.
//
//   0.log                       written now
//   0.log.20060102-150405       the newest rotated one
//   0.log.20060102-150405.000001  a further rotation within the same second
//   0.log.20060102-150401.gz    older ones (made as .tmp, then renamed)
//
// The two directories above the file and the file itself may have been replaced by a container that
// has the log directory mounted: none of them is followed when it is a symlink, and something that
// is no plain file of ours is unlinked, not written to. Single-threaded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/container_spec.h"

namespace holdfast::runtime::keeper {

// Rotated files of one log, oldest first.
struct RotatedFile {
  std::string stem;         // without ".gz"
  bool compressed = false;  // stem.gz is there
  bool plain = false;       // stem is there
};
// Picks out of a directory listing what belongs to the log file `base`. Pure.
std::vector<RotatedFile> FindRotated(const std::vector<std::string>& names,
                                     const std::string& base);
// A name that sorts after every one of `present`. Pure.
std::string NextRotatedName(const std::vector<RotatedFile>& present, const std::string& base,
                            WallTime now);

class LogFile {
 public:
  explicit LogFile(model::LogSpec spec);

  // Opens (creating it, and missing directories) what is not open. After an error the next call
  // tries again.
  Result<void> EnsureOpen();
  void Close();

  // Size and identity by fstat(2): others may have truncated, appended or unlinked.
  struct Facts {
    uint64_t inode = 0;
    uint64_t size = 0;
    bool unlinked = false;
  };
  Result<Facts> Stat() const;

  Result<void> WriteAt(uint64_t offset, std::span<const char> bytes) {
    return WriteAt(fd_.get(), offset, bytes);
  }
  static Result<void> WriteAt(int fd, uint64_t offset, std::span<const char> bytes);
  Result<void> Truncate(uint64_t size);

  // Renames the file away and creates it anew; then deletes what is beyond max_files.
  Result<void> Rotate(WallTime now);
  // Deletes every rotated file: space for the newest lines.
  void DropRotated();
  // A file of this log that was renamed, opened for writing; kNotFound when there is none.
  Result<UniqueFd> OpenByInode(uint64_t inode);
  // The next rotated file to compress: all but the newest are to be.
  std::optional<std::string> NextToCompress();
  // The directory; made when it is missing.
  Result<DirFd> OpenDirectory() const;

  const model::LogSpec& spec() const { return spec_; }
  // Bytes that fit into a file; at least one entry of the longest kind.
  uint64_t capacity() const;

 private:
  Result<void> OpenDirectoryOnce();
  Result<void> OpenOrCreate();
  Result<std::vector<RotatedFile>> ListRotated();
  void Prune();
  void Remove(const RotatedFile& file);

  model::LogSpec spec_;
  std::string base_;
  DirFd dir_;
  UniqueFd fd_;
};

}  // namespace holdfast::runtime::keeper
