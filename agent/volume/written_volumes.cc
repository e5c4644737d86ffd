// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/written_volumes.h"

#include <fcntl.h>
#include <sys/mount.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "agent/volume/atomic_writer.h"
#include "agent/volume/mount_point.h"
#include "agent/volume/set_up_failed.h"
#include "agent/volume/tmpfs.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

constexpr mode_t kWrittenDirMode = 0750;

}  // namespace

Result<void> OpenWrittenVolumes(const model::Instance& instance) {
  const std::string path = instance.WrittenVolumesDir();
  ASSIGN_OR_RETURN(const DirFd dir, sys::MakeDirs(AT_FDCWD, path, kWrittenDirMode));
  ASSIGN_OR_RETURN(const bool mounted, IsMountPoint(path));
  if (mounted) return {};
  ASSIGN_OR_RETURN(const UniqueFd context, sys::OpenFilesystem("tmpfs"));
  RETURN_IF_ERROR(sys::SetOption(context.get(), "source", "holdfast-volumes"));
  RETURN_IF_ERROR(sys::SetOption(context.get(), "mode", "0750"));
  if (KeepsTmpfsFromSwap()) RETURN_IF_ERROR(sys::SetFlag(context.get(), "noswap"));
  sys::MountAttributes attributes;
  attributes.no_suid = true;
  attributes.no_dev = true;
  ASSIGN_OR_RETURN(const MountFd mount, sys::CreateMount(context.get(), attributes));
  // Before it is attached: at no moment does it propagate.
  RETURN_IF_ERROR(sys::SetMountAttributes(
      mount.get(), {.propagation = sys::MountAttributes::Propagation::kPrivate}, false));
  RETURN_IF_ERROR(sys::AttachMount(mount.get(), dir.get(), path));
  HOLDFAST_PAUSE_POINT("agent.volume.written_mounted");
  return {};
}

Result<void> RemoveWrittenVolumes(const model::Instance& instance) {
  const std::string path = instance.WrittenVolumesDir();
  RETURN_IF_ERROR(UnmountIfMounted(path));
  return sys::RemoveTreeAt(AT_FDCWD, path);
}

Result<void> WriteVolumes(const PodPaths& paths, const VolumeContents& contents) {
  if (contents.empty()) return {};
  ASSIGN_OR_RETURN(const DirFd pod,
                   sys::MakeDirs(AT_FDCWD, paths.WrittenVolumes(), kWrittenDirMode));
  std::optional<Error> first;
  for (const auto& [name, content] : contents) {
    if (content.stands_in && sys::ExistsAt(pod.get(), StrCat(name, "/..data"))) continue;
    auto written = WriteAtomically(pod.get(), name, content);
    if (written || first) continue;
    first = SetUpFailed(name, std::move(written.error()));
  }
  if (first) return std::move(*first);
  return {};
}

Result<void> ReleaseWrittenVolumes(const std::string& directory) {
  RETURN_IF_ERROR(sys::RemoveTreeAt(AT_FDCWD, directory));
  HOLDFAST_PAUSE_POINT("agent.volume.written_removed");
  return {};
}

}  // namespace holdfast::agent
