// SPDX-License-Identifier: Apache-2.0
// Decompression by content: gzip (any number of members) and zstd (any number of frames).
#pragma once

#include "holdfast/base/result.h"

namespace holdfast::runtime::unpack {

// Both read `in` to its end and write everything to `out`. Memory is bounded (zstd windows up to
// 128 MiB); the amount written is for the reader of `out` to limit. kInvalidArgument for damaged,
// truncated or trailing bytes.
Result<void> InflateGzip(int in, int out);
Result<void> InflateZstd(int in, int out);

}  // namespace holdfast::runtime::unpack
