// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/block_device.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "agent/volume/set_up_failed.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {

Result<UniqueFd> OpenBlockDevice(const std::string& path) {
  auto found = sys::OpenAt(AT_FDCWD, path, O_PATH);
  if (!found && found.error().code() == Code::kNotFound) {
    return NotFound(StrCat("path \"", path, "\" does not exist"));
  }
  if (!found) return std::move(found.error());
  struct stat st{};
  if (::fstat(found->get(), &st) != 0) return Error::FromErrno(errno, StrCat("stat ", path));
  if (!S_ISBLK(st.st_mode)) {
    return InvalidArgument(StrCat("path \"", path, "\" is no block device"));
  }
  // Of a mount of our own: who mounted the node there can unmount it.
  ASSIGN_OR_RETURN(const MountFd node, sys::CloneTree(found->get(), "", false));
  return WithContext(sys::Reopen(node.get(), O_RDONLY | O_NONBLOCK), path);
}

Result<void> HoldBlockDevice(DeviceHolder& devices, const PodUid& uid, const std::string& name,
                             const PlacedVolume& volume) {
  auto device = OpenBlockDevice(volume.path);
  auto held = device ? devices.HoldDevice(uid, name, device->get())
                     : Result<void>(std::move(device.error()));
  HOLDFAST_PAUSE_POINT("agent.volume.device_held");
  if (held) return {};
  return StepFailed("MapVolume.MapBlockVolume", volume.name, std::move(held.error()));
}

Result<model::BlockDevice> BlockDeviceOf(DeviceHolder& devices, const PodUid& uid,
                                         const std::string& name, const PlacedVolume& volume) {
  auto held = devices.HeldDevice(uid, name);
  if (held || held.error().code() != Code::kNotFound) return held;
  RETURN_IF_ERROR(HoldBlockDevice(devices, uid, name, volume));
  return devices.HeldDevice(uid, name);
}

}  // namespace holdfast::agent
