// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/content/room.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <limits>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

// `available`: to unprivileged users, as kubelet counts.
uint64_t Left(uint64_t available, uint64_t total, const model::Threshold& reserve) {
  if (total == 0) return std::numeric_limits<uint64_t>::max();  // not counted: btrfs's inodes
  const uint64_t kept = reserve.Of(total);
  return available > kept ? available - kept : 0;
}

Error Full(uint64_t left, std::string_view what) {
  return Error(Code::kResourceExhausted, ENOSPC,
               StrCat("no room for images: they may take ", left, " more ", what,
                      " of their file system; remove images or files, or see evictionHard"));
}

}  // namespace

Result<Room> RoomOn(int fd, const model::DiskReserve& reserve) {
  struct statvfs st{};
  if (::fstatvfs(fd, &st) != 0) return Error::FromErrno(errno, "statfs image store");
  return Room{Left(st.f_bavail * st.f_frsize, st.f_blocks * st.f_frsize, reserve.bytes),
              Left(st.f_favail, st.f_files, reserve.inodes)};
}

Result<void> CheckRoom(int fd, const model::DiskReserve& reserve, uint64_t wanted) {
  ASSIGN_OR_RETURN(const Room room, RoomOn(fd, reserve));
  if (room.bytes < wanted) return Full(room.bytes, "bytes");
  if (room.files == 0) return Full(room.files, "inodes");
  return {};
}

}  // namespace holdfast::runtime
