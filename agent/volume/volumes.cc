// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/volumes.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <cerrno>
#include <utility>

#include "agent/kube/pod_resources.h"
#include "agent/kube/quantity.h"
#include "agent/kube/volume_kinds.h"
#include "agent/volume/host_path.h"
#include "agent/volume/huge_pages.h"
#include "agent/volume/mount_point.h"
#include "agent/volume/mounted_images.h"
#include "agent/volume/ownership.h"
#include "agent/volume/set_up_failed.h"
#include "agent/volume/tmpfs.h"
#include "agent/volume/written_volumes.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {
namespace {

constexpr long kTmpfsMagic = 0x01021994;
constexpr long kHugetlbfsMagic = 0x958458f6;

bool IsMemory(const corev1::VolumeSource& source) { return source.emptydir().medium() == "Memory"; }

Result<bool> IsOfMemory(int dir) {
  struct statfs st{};
  if (::fstatfs(dir, &st) != 0) return Error::FromErrno(errno, "fstatfs");
  return st.f_type == kTmpfsMagic || st.f_type == kHugetlbfsMagic;
}

Result<void> MountMemory(const std::string& path, int64_t bytes) {
  ASSIGN_OR_RETURN(const bool mounted, IsMountPoint(path));
  if (mounted) return {};
  std::string options = "mode=0777";
  if (bytes > 0) options += StrCat(",size=", bytes);
  RETURN_IF_ERROR(MountTmpfs("tmpfs", path, MS_NOSUID | MS_NODEV, std::move(options)));
  HOLDFAST_PAUSE_POINT("agent.volume.tmpfs_mounted");
  return {};
}

Result<void> EnsureEmptyDir(const corev1::Pod& pod, const corev1::Volume& volume,
                            const PodPaths& paths, int64_t node_bytes) {
  const auto& source = volume.volumesource().emptydir();
  const std::string path = paths.EmptyDir(volume.name());
  const bool huge_pages = IsHugePages(volume.volumesource());
  if (!source.medium().empty() && source.medium() != "Memory" && !huge_pages) {
    return Unsupported(StrCat("unknown or unsupported storage medium \"", source.medium(), "\""));
  }
  ASSIGN_OR_RETURN(DirFd parent, sys::MakeDirs(AT_FDCWD, paths.EmptyDirs(), 0750));
  ASSIGN_OR_RETURN(DirFd made, sys::MakeDirs(parent.get(), volume.name(), 0777));
  HOLDFAST_PAUSE_POINT("agent.volume.empty_dir_made");
  if (IsMemory(volume.volumesource())) {
    RETURN_IF_ERROR(MountMemory(path, MemoryVolumeBytes(pod.spec(), source, node_bytes)));
  }
  if (huge_pages) {
    ASSIGN_OR_RETURN(const uint64_t page_bytes, HugePageBytes(pod.spec(), source.medium()));
    RETURN_IF_ERROR(MountHugePages(path, page_bytes));
  }
  ASSIGN_OR_RETURN(UniqueFd dir, sys::OpenAt(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  // Against the umask; a setgid bit that fsGroup put there stays.
  struct stat st{};
  if (::fstat(dir.get(), &st) != 0) return Error::FromErrno(errno, StrCat("stat ", path));
  const mode_t mode = (st.st_mode & 07000) | 0777;
  if ((st.st_mode & 07777) != mode && ::fchmod(dir.get(), mode) != 0) {
    return Error::FromErrno(errno, StrCat("chmod ", path));
  }
  return GiveToGroupOf(pod, dir.get());
}

// What an agent without a control plane has none of, in a kubelet's words.
Error Missing(const corev1::VolumeSource& source) {
  if (source.has_configmap()) {
    return NotFound(
        StrCat("configmap \"", source.configmap().localobjectreference().name(), "\" not found"));
  }
  if (source.has_secret()) {
    return NotFound(StrCat("secret \"", source.secret().secretname(), "\" not found"));
  }
  if (source.has_gitrepo()) return Unsupported("gitRepo volumes are disabled");
  return Unsupported("no volume plugin matched: this kind of volume is not supported");
}

// A ConfigMap or Secret that may be missing: the volume is there, with nothing in it.
bool IsEmptyVolume(const corev1::VolumeSource& source) {
  return source.configmap().optional() || source.secret().optional();
}

Result<void> EnsureOne(const corev1::Pod& pod, const corev1::Volume& volume, const PodPaths& paths,
                       int64_t node_bytes, const VolumeContents& contents) {
  const auto& source = volume.volumesource();
  if (kube::IsPersistent(source)) return {};
  if (source.has_hostpath())
    return EnsureHostPath(source.hostpath().path(), source.hostpath().type());
  if (source.has_emptydir()) return EnsureEmptyDir(pod, volume, paths, node_bytes);
  if (source.has_image()) return {};  // when a container starts that mounts it
  const bool is_written = kube::HasWrittenFiles(source) && contents.contains(volume.name());
  return is_written || IsEmptyVolume(source) ? Result<void>() : Missing(source);
}

// What the agent writes, with the optional ones that are missing.
VolumeContents WrittenContents(const corev1::Pod& pod, VolumeContents contents) {
  for (const corev1::Volume& volume : pod.spec().volumes()) {
    if (IsEmptyVolume(volume.volumesource())) contents.try_emplace(volume.name());
  }
  return contents;
}

// The node's own directories keep their labels, and what may not be written to. A plugin may have mounted its volume with a
// label for all, which is seen there.
bool IsRelabelled(const PlacedVolume& volume) {
  return !volume.read_only && (volume.kind == "local" || volume.kind == "csi");
}

}  // namespace

VolumePlaces PlacesOfVolumes(const corev1::Pod& pod, const PodPaths& paths,
                             const PlacedVolumes& persistent) {
  VolumePlaces out;
  for (const corev1::Volume& volume : pod.spec().volumes()) {
    const auto& source = volume.volumesource();
    if (source.has_hostpath()) out[volume.name()] = {source.hostpath().path()};
    if (source.has_emptydir()) {
      out[volume.name()] = {paths.EmptyDir(volume.name()), false, paths.Root(), true};
    }
    if (source.has_image()) {
      out[volume.name()] = {paths.MountedImage(volume.name()), true, paths.Root()};
    }
    if (kube::HasWrittenFiles(source)) {
      out[volume.name()] = {paths.WrittenVolume(volume.name()), true, "", true};
    }
  }
  for (const auto& [name, volume] : persistent) {
    if (!volume.ready || volume.block) continue;
    const bool is_ours =
        volume.path.starts_with(paths.Volumes() + "/");  // a hostPath may be a link
    out[name] = {volume.path, volume.read_only, is_ours ? paths.Root() : "", IsRelabelled(volume)};
  }
  return out;
}

int64_t MemoryVolumeBytes(const corev1::PodSpec& pod, const corev1::EmptyDirVolumeSource& volume,
                          int64_t node_bytes) {
  int64_t bytes = node_bytes;
  const auto bound = [&bytes](int64_t limit) {
    if (limit > 0 && (bytes <= 0 || limit < bytes)) bytes = limit;
  };
  if (kube::HasPodLimit(pod, "memory")) {
    bound(kube::MemoryBytes(kube::PodLimits(pod)).value_or(0));
  }
  if (const auto limit = kube::Amount::Parse(volume.sizelimit().string()); limit) {
    bound(limit->Units());
  }
  return bytes;
}

Result<void> EnsureVolumes(const corev1::Pod& pod, const PodPaths& paths, int64_t node_bytes,
                           const VolumeContents& contents) {
  for (const corev1::Volume& volume : pod.spec().volumes()) {
    if (auto done = EnsureOne(pod, volume, paths, node_bytes, contents); !done) {
      return SetUpFailed(volume.name(), std::move(done.error()));
    }
  }
  return WriteVolumes(paths, WrittenContents(pod, contents));
}

Result<void> EnsureSubPath(const model::MountSpec& mount) {
  const std::string &volume = mount.source, &sub_path = mount.sub_path;
  ASSIGN_OR_RETURN(const UniqueFd root, sys::OpenRooted(mount.source_root, volume));
  if (sys::OpenInside(root.get(), sub_path, O_PATH, 0, sys::Resolve::kInRoot)) return {};
  struct stat st{};
  if (::fstat(root.get(), &st) != 0) return Error::FromErrno(errno, StrCat("stat ", volume));
  const mode_t mode = st.st_mode & 07777;
  RETURN_IF_ERROR(sys::MakeDirsInside(root.get(), sub_path, mode));
  // Against the umask.
  ASSIGN_OR_RETURN(
      const UniqueFd made,
      sys::OpenInside(root.get(), sub_path, O_RDONLY | O_DIRECTORY, 0, sys::Resolve::kInRoot));
  if (::fchmod(made.get(), mode) != 0) {
    return Error::FromErrno(errno, StrCat("chmod ", sub_path, " of ", volume));
  }
  return {};
}

Result<void> ReleaseVolumes(const corev1::Pod& pod, const PodPaths& paths) {
  for (const corev1::Volume& volume : pod.spec().volumes()) {
    if (volume.volumesource().has_image()) {
      RETURN_IF_ERROR(UnmountIfMounted(paths.MountedImage(volume.name())));
    }
    if (!IsMemory(volume.volumesource()) && !IsHugePages(volume.volumesource())) continue;
    const std::string path = paths.EmptyDir(volume.name());
    ASSIGN_OR_RETURN(const bool mounted, IsMountPoint(path));
    if (!mounted) continue;
    ASSIGN_OR_RETURN(DirFd dir, sys::OpenDir(path));
    ASSIGN_OR_RETURN(const bool ours, IsOfMemory(dir.get()));
    if (!ours) {
      return Conflict(
          StrCat("unmount ", path, ": something that is no tmpfs and no hugetlbfs is mounted"));
    }
    dir.Reset();
    RETURN_IF_ERROR(Unmount(path));
    HOLDFAST_PAUSE_POINT("agent.volume.tmpfs_unmounted");
  }
  return ReleaseWrittenVolumes(paths.WrittenVolumes());
}

}  // namespace holdfast::agent
