// SPDX-License-Identifier: Apache-2.0
// Reading directories, for the verbs of this folder.
#pragma once

#include <dirent.h>

#include <memory>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

struct DirCloser {
  void operator()(DIR* d) const { ::closedir(d); }
};
using DirStream = std::unique_ptr<DIR, DirCloser>;

// `path` is for messages.
Result<DirStream> ToDirStream(UniqueFd directory, const std::string& path);

// The next entry but "." and ".."; nullptr at the end (errno 0) and on failure.
const dirent* NextEntry(DIR* stream);

// openat2(2) of one name of `dir`: neither through a link nor onto something that is mounted there
// (EXDEV).
Result<UniqueFd> OpenEntry(int dir, const std::string& name, int flags);

}  // namespace holdfast::sys
