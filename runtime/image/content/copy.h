// SPDX-License-Identifier: Apache-2.0
// Copying bytes while hashing and counting them. Nothing here looks at what the bytes mean.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/model/disk_reserve.h"

namespace holdfast::runtime {

struct Copied {
  Digest digest;
  uint64_t size = 0;
};

// Reads `from` to its end; kResourceExhausted above `limit` bytes. `sink` gets every piece.
Result<Copied> CopyHashed(int from, uint64_t limit,
                          const std::function<Result<void>(std::string_view)>& sink);
Result<Copied> CopyHashed(int from, int to, uint64_t limit);
// To a file of the image store: ends with kResourceExhausted when too little room is left there.
Result<Copied> CopyIntoStore(int from, int to, uint64_t limit, const model::DiskReserve& reserve);
Result<Copied> HashFd(int from, uint64_t limit);

}  // namespace holdfast::runtime
