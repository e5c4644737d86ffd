// SPDX-License-Identifier: Apache-2.0
// TarReader: one tar stream through libarchive (ustar, pax, GNU), nothing else: no other format,
// no compression filter. Single-thread. Every string is untrusted.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::runtime::unpack {

struct Member {
  std::string name;    // raw, may be anything
  mode_t type = 0;     // S_IFREG, S_IFDIR, S_IFLNK, S_IFCHR, S_IFBLK, S_IFIFO; 0 for a hard link
  std::string target;  // of a symbolic or hard link
  mode_t permissions = 0;
  int64_t uid = 0;
  int64_t gid = 0;
  timespec mtime{};
  uint64_t size = 0;  // apparent size of a file
  dev_t device = 0;
  std::vector<std::pair<std::string, std::string>> xattrs;
};

class TarReader {
 public:
  // Borrows `fd`, which may be a pipe.
  static Result<TarReader> Open(int fd);
  TarReader(TarReader&&) noexcept;
  TarReader& operator=(TarReader&&) noexcept;
  ~TarReader();

  // The next member; nothing at the end of the archive. kInvalidArgument when it is damaged.
  Result<std::optional<Member>> Next();
  // Content of the current member: `sink(piece, offset)` for each part that is not a hole.
  Result<void> ReadData(const std::function<Result<void>(std::string_view, uint64_t)>& sink);

 private:
  struct State;
  explicit TarReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::runtime::unpack
