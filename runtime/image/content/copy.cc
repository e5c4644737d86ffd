// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/content/copy.h"

#include <unistd.h>

#include <cerrno>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/content/room.h"

namespace holdfast::runtime {

Result<Copied> CopyHashed(int from, uint64_t limit,
                          const std::function<Result<void>(std::string_view)>& sink) {
  Sha256 hash;
  Copied copied;
  std::vector<char> buffer(256 * 1024);
  for (;;) {
    const ssize_t n = ::read(from, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::FromErrno(errno, "read");
    if (n == 0) break;
    const std::string_view piece(buffer.data(), static_cast<size_t>(n));
    copied.size += piece.size();
    if (copied.size > limit) {
      return Error(Code::kResourceExhausted, StrCat("larger than the limit of ", limit, " bytes"));
    }
    hash.Update(piece);
    RETURN_IF_ERROR(sink(piece));
  }
  copied.digest = hash.Finish();
  return copied;
}

Result<Copied> CopyHashed(int from, int to, uint64_t limit) {
  return CopyHashed(from, limit, [to](std::string_view piece) { return sys::WriteAll(to, piece); });
}

Result<Copied> CopyIntoStore(int from, int to, uint64_t limit, const model::DiskReserve& reserve) {
  return CopyHashed(from, limit, [&](std::string_view piece) -> Result<void> {
    RETURN_IF_ERROR(CheckRoom(to, reserve, piece.size()));
    return sys::WriteAll(to, piece);
  });
}

Result<Copied> HashFd(int from, uint64_t limit) {
  return CopyHashed(from, limit, [](std::string_view) { return Result<void>(); });
}

}  // namespace holdfast::runtime
