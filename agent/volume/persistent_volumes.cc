// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/persistent_volumes.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/volume/block_device.h"
#include "agent/volume/host_path.h"
#include "agent/volume/mount_point.h"
#include "agent/volume/ownership.h"
#include "agent/volume/set_up_failed.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;

constexpr mode_t kLocalDirMode = 0750;

Result<void> RefuseMountOptions(const PersistentVolume& volume, const char* kind) {
  if (volume.spec.mountoptions().empty()) return {};
  return Unsupported(StrCat("Mount options are not supported for volumes of the kind ", kind));
}

// Whoever makes PersistentVolumes may be allowed some directories only, and a path is compared with them as it is written.
bool StepsBack(const std::string& path) {
  return StrCat(path, "/").find("/../") != std::string::npos;
}

Result<PlacedVolume> PlaceHostPath(const PersistentVolume& volume) {
  RETURN_IF_ERROR(RefuseMountOptions(volume, "hostPath"));
  const auto& source = volume.spec.persistentvolumesource().hostpath();
  if (StepsBack(source.path())) {
    return InvalidArgument(StrCat("invalid HostPath `", source.path(), "`: must not contain '..'"));
  }
  RETURN_IF_ERROR(EnsureHostPath(source.path(), source.type()));
  return PlacedVolume{volume.name, "hostPath", source.path(), volume.read_only};
}

// A disk that was prepared for one claim after the other: unlike a hostPath it is there, and it can belong to a group.
// Looked at by the descriptor that is bound.
Result<UniqueFd> OpenLocal(const PersistentVolume& volume) {
  RETURN_IF_ERROR(RefuseMountOptions(volume, "local"));
  const std::string& path = volume.spec.persistentvolumesource().local().path();
  if (StepsBack(path)) {
    return InvalidArgument(StrCat("invalid path: ", path, " must not contain '..'"));
  }
  auto dir = sys::OpenAt(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  if (dir) return dir;
  if (dir.error().sys_errno() == ENOENT) {
    return NotFound(StrCat("path \"", path, "\" does not exist"));
  }
  if (dir.error().sys_errno() != ENOTDIR) return dir;
  return Unsupported(StrCat("path \"", path, "\" is no directory: mount the disk there"));
}

// Whatever is put in the place of `dir` later: containers find at `path`, below the node's own directory, what it is now.
Result<void> BindLocal(int dir, const PodPaths& paths, const std::string& path) {
  RETURN_IF_ERROR(UnmountIfMounted(path));  // of an agent that was killed right after it
  ASSIGN_OR_RETURN(
      const DirFd place,
      sys::MakeDirsBelow(paths.Root(), path.substr(paths.Root().size() + 1), kLocalDirMode));
  ASSIGN_OR_RETURN(const MountFd tree, sys::CloneTree(dir, "", true));
  RETURN_IF_ERROR(sys::AttachMount(tree.get(), place.get(), path));
  HOLDFAST_PAUSE_POINT("agent.volume.local_bound");
  return {};
}

Result<void> UnbindLocal(const PlacedVolume& volume) {
  RETURN_IF_ERROR(UnmountIfMounted(volume.path));
  HOLDFAST_PAUSE_POINT("agent.volume.local_unbound");
  if (::rmdir(volume.path.c_str()) == 0 || errno == ENOENT) return {};
  return Error::FromErrno(errno, StrCat("rmdir ", volume.path));
}

// Where a volume of a storage plugin is going to lie. It is written down before the plugin is asked.
PlacedVolume CsiPlace(const PodPaths& paths, const PersistentVolume& volume) {
  const auto& source = volume.spec.persistentvolumesource().csi();
  const bool block = IsBlock(volume);
  return {.name = volume.name,
          .kind = "csi",
          .path = block ? paths.CsiDevice(volume.name) : paths.CsiVolume(volume.name),
          .read_only = volume.read_only,
          .driver = source.driver(),
          .handle = source.volumehandle(),
          .block = block};
}

PlacedVolume LocalDevicePlace(const PersistentVolume& volume) {
  return {.name = volume.name,
          .kind = "local",
          .path = volume.spec.persistentvolumesource().local().path(),
          .read_only = volume.read_only,
          .block = true};
}

Result<PlacedVolume> PlaceOnNode(const PersistentVolume& volume) {
  if (volume.spec.persistentvolumesource().has_hostpath()) return PlaceHostPath(volume);
  return Unsupported("no volume plugin matched: this kind of volume is not supported");
}

// What a plugin mounted is gone after a reboot, and so is what was kept open; a device's number may be another's by then.
bool Stands(const PodUid& uid, const std::string& name, const PlacedVolume& volume,
            DeviceHolder& devices) {
  if (!volume.ready) return false;
  if (volume.block) return devices.HeldDevice(uid, name).has_value();
  if (volume.kind != "csi" && volume.kind != "nfs" && !volume.bound) return true;
  const auto mounted = IsMountPoint(volume.path);
  return mounted && *mounted;
}

Error NoBlockPlugin(const std::string& volume) {
  return Unsupported(
      StrCat("MapVolume.FindMapperPluginBySpec failed to find BlockVolumeMapper plugin. Volume "
             "plugin is nil. for volume \"",
             volume, "\" : a volume of this kind cannot be a block device"));
}

Result<void> TakeAway(const PodUid& uid, const std::string& name, const PlacedVolume& volume,
                      const VolumeMounters& mounters) {
  if (volume.block) {  // a plugin may not be able to take away what is open
    RETURN_IF_ERROR(mounters.devices.LetGoOfDevice(uid, name));
    HOLDFAST_PAUSE_POINT("agent.volume.device_let_go");
  }
  if (volume.kind == "csi") {
    if (mounters.csi == nullptr) {
      return Unsupported("a volume is of a storage plugin; there are none here");
    }
    return mounters.csi->Unmount(uid, volume);
  }
  if (volume.kind == "nfs") {
    if (mounters.nfs == nullptr) return Unsupported("a volume is mounted; nobody unmounts here");
    auto done = mounters.nfs->Unmount(volume.path);
    if (!done) {
      return StepFailed(kFileSystemSteps.unpublish, volume.name, std::move(done.error()));
    }
  }
  if (!volume.bound) return {};
  auto done = UnbindLocal(volume);
  return done ? Result<void>()
              : StepFailed(kFileSystemSteps.unpublish, volume.name, std::move(done.error()));
}

class PersistentPlacer {
 public:
  PersistentPlacer(const corev1::Pod& pod, const PodPaths& paths, const VolumeMounters& mounters,
                   const std::atomic<bool>& cancelled, PlacedVolumes placed)
      : pod_(pod),
        uid_(pod.metadata().uid()),
        paths_(paths),
        csi_(mounters.csi),
        nfs_(mounters.nfs),
        devices_(mounters.devices),
        tell_ownership_(mounters.tell_ownership),
        cancelled_(cancelled),
        placed_(std::move(placed)) {}

  Result<void> Place(const std::string& name, const PersistentVolume& volume) {
    if (placed_.contains(name) && Stands(uid_, name, placed_[name], devices_)) {
      return volume.csi.republished && csi_ != nullptr
                 ? csi_->Mount(pod_, volume, placed_[name], cancelled_)
                 : Result<void>();
    }
    if (volume.spec.persistentvolumesource().has_csi()) return PlaceCsi(name, volume);
    if (IsBlock(volume)) return PlaceLocalDevice(name, volume);
    if (volume.spec.persistentvolumesource().has_nfs()) return PlaceNfs(name, volume);
    if (volume.spec.persistentvolumesource().has_local()) return PlaceLocal(name, volume);
    auto done = PlaceOnNode(volume);
    if (!done) return SetUpFailed(volume.name, done.error());
    HOLDFAST_PAUSE_POINT("agent.volume.persistent_placed");
    return Remember(name, std::move(*done), true);
  }

 private:
  Result<void> PlaceCsi(const std::string& name, const PersistentVolume& volume) {
    if (csi_ == nullptr) {
      return StepFailed(StepsOf(IsBlock(volume)).publish, volume.name,
                        Unsupported("no storage plugins here"));
    }
    const PlacedVolume place = CsiPlace(paths_, volume);
    RETURN_IF_ERROR(Remember(name, place, false));
    RETURN_IF_ERROR(csi_->Mount(pod_, volume, place, cancelled_));
    if (place.block) RETURN_IF_ERROR(HoldBlockDevice(devices_, uid_, name, place));
    return Remember(name, place, true);
  }

  // No group is given: whose files are whose is the server's to say.
  Result<void> PlaceNfs(const std::string& name, const PersistentVolume& volume) {
    if (nfs_ == nullptr) return SetUpFailed(volume.name, Unsupported("nobody mounts here"));
    const PlacedVolume place{volume.name, "nfs", paths_.NfsVolume(name), volume.read_only};
    RETURN_IF_ERROR(Remember(name, place, false));
    const auto& nfs = volume.spec.persistentvolumesource().nfs();
    const auto& options = volume.spec.mountoptions();
    const NfsSource source{
        nfs.server(), nfs.path(), {options.begin(), options.end()}, volume.read_only};
    if (auto done = nfs_->Mount(source, place.path, cancelled_); !done) {
      return SetUpFailed(volume.name, std::move(done.error()));
    }
    return Remember(name, place, true);
  }

  Result<void> PlaceLocal(const std::string& name, const PersistentVolume& volume) {
    PlacedVolume place{volume.name, "local", paths_.LocalVolume(name), volume.read_only};
    place.bound = true;
    const auto dir = OpenLocal(volume);
    if (!dir) return SetUpFailed(volume.name, dir.error());
    OwnershipProgress progress(pod_, place.path, tell_ownership_);
    if (!volume.read_only) {
      auto given = GiveToGroupOf(pod_, dir->get(), &progress);
      if (!given) return SetUpFailed(volume.name, std::move(given.error()));
    }
    RETURN_IF_ERROR(Remember(name, place, false));
    auto bound = BindLocal(dir->get(), paths_, place.path);
    if (!bound) return SetUpFailed(volume.name, std::move(bound.error()));
    return Remember(name, place, true);
  }

  Result<void> PlaceLocalDevice(const std::string& name, const PersistentVolume& volume) {
    if (!volume.spec.persistentvolumesource().has_local()) return NoBlockPlugin(volume.name);
    if (auto fine = RefuseMountOptions(volume, "local"); !fine) {
      return StepFailed(kBlockSteps.publish, volume.name, std::move(fine.error()));
    }
    const PlacedVolume place = LocalDevicePlace(volume);
    RETURN_IF_ERROR(Remember(name, place, false));
    RETURN_IF_ERROR(HoldBlockDevice(devices_, uid_, name, place));
    return Remember(name, place, true);
  }

  Result<void> Remember(const std::string& name, PlacedVolume place, bool ready) {
    place.ready = ready;
    placed_[name] = std::move(place);
    return WritePlacedVolumes(paths_, placed_);
  }

  const corev1::Pod& pod_;
  const PodUid uid_;
  const PodPaths& paths_;
  CsiMounter* const csi_;
  NfsMounter* const nfs_;
  DeviceHolder& devices_;
  const TellOwnership& tell_ownership_;
  const std::atomic<bool>& cancelled_;
  PlacedVolumes placed_;
};

}  // namespace

std::vector<std::string> StandingVolumes(const PodUid& uid, const PlacedVolumes& placed,
                                         DeviceHolder& devices) {
  std::vector<std::string> names;
  for (const auto& [name, volume] : placed) {
    if (Stands(uid, name, volume, devices)) names.push_back(name);
  }
  return names;
}

std::vector<Error> EnsurePersistentVolumes(const corev1::Pod& pod, const PodPaths& paths,
                                           const PersistentVolumes& wanted,
                                           const VolumeMounters& mounters,
                                           const std::atomic<bool>& cancelled) {
  auto placed = ReadPlacedVolumes(paths);
  if (!placed) return {std::move(placed.error())};
  PersistentPlacer placer(pod, paths, mounters, cancelled, std::move(*placed));
  std::vector<Error> errors;
  for (const auto& [name, volume] : wanted) {
    if (cancelled) break;
    if (auto done = placer.Place(name, volume); !done) errors.push_back(std::move(done.error()));
  }
  return errors;
}

Result<void> ReleasePersistentVolumes(const PodUid& uid, const PodPaths& paths,
                                      const VolumeMounters& mounters) {
  ASSIGN_OR_RETURN(PlacedVolumes placed, ReadPlacedVolumes(paths));
  while (!placed.empty()) {
    RETURN_IF_ERROR(TakeAway(uid, placed.begin()->first, placed.begin()->second, mounters));
    placed.erase(placed.begin());
    RETURN_IF_ERROR(WritePlacedVolumes(paths, placed));
  }
  return {};
}

}  // namespace holdfast::agent
