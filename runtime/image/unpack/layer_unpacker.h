// SPDX-License-Identifier: Apache-2.0
// One layer's tar stream into one directory. Reads `fd` to its very end, past the end-of-archive
// mark, so that whoever feeds the stream can hash all of it.
#pragma once

#include <cstdint>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/image/unpack/tree_writer.h"

namespace holdfast::runtime::unpack {

struct UnpackLimits {
  uint64_t members = 2'000'000;
  uint64_t bytes = 64ull << 30;          // written data, of all files
  uint64_t room_files = UINT64_MAX;      // that may be made, directories included
  uint64_t room_bytes = UINT64_MAX;      // that these may take, in blocks
  uint64_t apparent_size = 16ull << 40;  // of one sparse file
};

// kInvalidArgument for a damaged or hostile archive, kResourceExhausted above a limit. What was
// written until then stays for the caller to remove.
Result<LayerReport> UnpackLayer(int fd, DirFd root, const UnpackLimits& limits);

}  // namespace holdfast::runtime::unpack
