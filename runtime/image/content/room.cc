// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/content/room.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <limits>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

Error Full(uint64_t available, std::string_view what, uint64_t reserve) {
  return Error(
      Code::kResourceExhausted,
      StrCat("no room for images: of the file system ", available, " ", what, " are left, and ",
             reserve, " are kept free; remove images or files, or see evictionHard"));
}

}  // namespace

Result<void> CheckRoom(int fd, const model::DiskReserve& reserve, uint64_t wanted) {
  struct statvfs st{};
  if (::fstatvfs(fd, &st) != 0) return Error::FromErrno(errno, "statfs image store");
  const uint64_t available = st.f_bavail * st.f_frsize;
  const uint64_t bytes = reserve.bytes.Of(st.f_blocks * st.f_frsize);
  if (st.f_blocks != 0 && (available < bytes || available - bytes < wanted)) {
    return Full(available, "bytes", bytes);
  }
  ASSIGN_OR_RETURN(const uint64_t files, RoomForFiles(fd, reserve));
  if (files == 0) return Full(st.f_favail, "inodes", reserve.inodes.Of(st.f_files));
  return {};
}

Result<uint64_t> RoomForFiles(int fd, const model::DiskReserve& reserve) {
  struct statvfs st{};
  if (::fstatvfs(fd, &st) != 0) return Error::FromErrno(errno, "statfs image store");
  if (st.f_files == 0) return std::numeric_limits<uint64_t>::max();  // btrfs, for one
  const uint64_t kept = reserve.inodes.Of(st.f_files);
  return st.f_favail > kept ? st.f_favail - kept : 0;
}

}  // namespace holdfast::runtime
