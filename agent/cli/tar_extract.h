// SPDX-License-Identifier: Apache-2.0
// Takes a tar stream that somebody in a container wrote, who may mean harm, and makes files of it: regular files
// and directories, all of them below the destination. Whatever it names, no name and no link leads out of that.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

struct ExtractOptions {
  std::string
      prefix;  // what every member's name begins with: the path that was asked for, without "/"
  std::string
      destination;  // where that goes: a directory's content into it, a file to it or into it
  std::function<void(const std::string& line)> warn;  // of what was left out
};

// The next piece; empty: the end. The view is good until the next call.
using ByteSource = std::function<Result<std::string_view>()>;

// kInvalidArgument: "tar contents corrupted", where a member does not begin with the prefix, or no tar at all.
// What was written before an error stays.
Result<void> ExtractTar(const ByteSource& source, const ExtractOptions& options);

}  // namespace holdfast::agent::cli
