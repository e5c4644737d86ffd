// SPDX-License-Identifier: Apache-2.0
// LayeredRoot: reads single files out of an image without mounting it, as overlayfs would show
// them: topmost layer first, with whiteouts, opaque directories and symlinks resolved inside the
// image. Thread-safe after construction.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime {

class LayeredRoot {
 public:
  // Absolute directories, lowest first.
  static Result<LayeredRoot> Open(const std::vector<std::string>& layers);

  // kNotFound when the image has no such file; kInvalidArgument when it is no regular file;
  // kResourceExhausted above `limit` bytes. Never opens a FIFO or a device, never leaves the image.
  Result<std::string> ReadFile(const std::string& path, size_t limit) const;

 private:
  std::vector<DirFd> layers_;  // topmost first
};

}  // namespace holdfast::runtime
