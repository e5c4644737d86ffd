// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/held_devices.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

constexpr std::string_view kDevicePrefix = "device.";

// The volume's name is a DNS label: the last dot parts it from the UID.
std::string DeviceKey(const PodUid& uid, const std::string& volume) {
  return StrCat(kDevicePrefix, uid.value, ".", volume);
}

Result<model::BlockDevice> BlockDeviceOf(int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return Error::FromErrno(errno, "fstat block device");
  if (!S_ISBLK(st.st_mode)) return InvalidArgument("hold device: it is no block device");
  return model::BlockDevice{::major(st.st_rdev), ::minor(st.st_rdev), st.st_mode & 0777, st.st_uid,
                            st.st_gid};
}

}  // namespace

Result<void> HoldDevice(const keeper::KeeperClient& keeper, const PodUid& uid,
                        const std::string& volume, int device) {
  RETURN_IF_ERROR(BlockDeviceOf(device));
  return keeper.PutFds(DeviceKey(uid, volume), {device});
}

Result<model::BlockDevice> HeldDevice(const keeper::KeeperClient& keeper, const PodUid& uid,
                                      const std::string& volume) {
  ASSIGN_OR_RETURN(const std::vector<UniqueFd> kept, keeper.GetFds(DeviceKey(uid, volume)));
  if (kept.size() != 1) return Internal(StrCat(DeviceKey(uid, volume), ": not one descriptor"));
  return BlockDeviceOf(kept.front().get());
}

Result<void> LetGoOfDevice(const keeper::KeeperClient& keeper, const PodUid& uid,
                           const std::string& volume) {
  return keeper.DropFds(DeviceKey(uid, volume));
}

Result<std::vector<HeldVolume>> ListHeldDevices(const keeper::KeeperClient& keeper) {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, keeper.ListKeys());
  std::vector<HeldVolume> held;
  for (const std::string& key : keys) {
    const size_t dot = key.rfind('.');
    if (!key.starts_with(kDevicePrefix) || dot < kDevicePrefix.size()) continue;
    held.push_back({PodUid(key.substr(kDevicePrefix.size(), dot - kDevicePrefix.size())),
                    key.substr(dot + 1)});
  }
  return held;
}

}  // namespace holdfast::runtime
