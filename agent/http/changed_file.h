// SPDX-License-Identifier: Apache-2.0
// ChangedFile: a small file that is read again when it was written or replaced. Single-thread.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "holdfast/base/result.h"

namespace holdfast::agent {

class ChangedFile {
 public:
  explicit ChangedFile(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // Its content, when it is another file, or was written, since the last call that gave one. A failure counts as no
  // change: the next call looks again. Follows symbolic links, as Kubernetes' volumes have them.
  Result<std::optional<std::string>> ReadIfChanged();

 private:
  const std::string path_;
  struct stat last_{};
};

}  // namespace holdfast::agent
