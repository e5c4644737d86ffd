// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/persistent_volumes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "agent/volume/host_path.h"
#include "agent/volume/ownership.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;

Error SetUpFailed(const std::string& name, const Error& error) {
  return {error.code(),
          StrCat("MountVolume.SetUp failed for volume \"", name, "\" : ", error.message())};
}

Result<void> RefuseMountOptions(const PersistentVolume& volume, const char* kind) {
  if (volume.spec.mountoptions().empty()) return {};
  return Unsupported(StrCat("Mount options are not supported for volumes of the kind ", kind));
}

Result<PlacedVolume> PlaceHostPath(const PersistentVolume& volume) {
  RETURN_IF_ERROR(RefuseMountOptions(volume, "hostPath"));
  const auto& source = volume.spec.persistentvolumesource().hostpath();
  RETURN_IF_ERROR(EnsureHostPath(source.path(), source.type()));
  return PlacedVolume{volume.name, "hostPath", source.path(), volume.read_only};
}

Result<void> GiveToPodsGroup(const corev1::Pod& pod, const std::string& path) {
  const auto& context = pod.spec().securitycontext();
  if (!context.has_fsgroup()) return {};
  ASSIGN_OR_RETURN(const UniqueFd dir, sys::OpenAt(AT_FDCWD, path, O_RDONLY | O_DIRECTORY));
  return GiveToGroup(dir.get(), static_cast<gid_t>(context.fsgroup()),
                     context.fsgroupchangepolicy() == "OnRootMismatch");
}

// A disk that was prepared for one claim after the other: unlike a hostPath it is there, and it can belong to a group.
Result<PlacedVolume> PlaceLocal(const corev1::Pod& pod, const PersistentVolume& volume) {
  RETURN_IF_ERROR(RefuseMountOptions(volume, "local"));
  const std::string& path = volume.spec.persistentvolumesource().local().path();
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) {
    if (errno == ENOENT) return NotFound(StrCat("path \"", path, "\" does not exist"));
    return Error::FromErrno(errno, StrCat("stat ", path));
  }
  if (!S_ISDIR(st.st_mode)) {
    return Unsupported(StrCat("path \"", path, "\" is no directory: mount the disk there"));
  }
  if (!volume.read_only) RETURN_IF_ERROR(GiveToPodsGroup(pod, path));
  return PlacedVolume{volume.name, "local", path, volume.read_only};
}

Result<PlacedVolume> Place(const corev1::Pod& pod, const PersistentVolume& volume) {
  const auto& source = volume.spec.persistentvolumesource();
  if (source.has_hostpath()) return PlaceHostPath(volume);
  if (source.has_local()) return PlaceLocal(pod, volume);
  return Unsupported("no volume plugin matched: this kind of volume is not supported");
}

}  // namespace

std::vector<std::string> StandingVolumes(const PlacedVolumes& placed) {
  std::vector<std::string> names;
  for (const auto& [name, volume] : placed) {
    if (volume.ready) names.push_back(name);
  }
  return names;
}

std::vector<Error> EnsurePersistentVolumes(const corev1::Pod& pod, const PodPaths& paths,
                                           const PersistentVolumes& wanted) {
  std::vector<Error> errors;
  auto known = ReadPlacedVolumes(paths);
  if (!known) return {std::move(known.error())};
  PlacedVolumes placed = *known;
  for (const auto& [name, volume] : wanted) {
    if (placed.contains(name) && placed[name].ready) continue;
    auto done = Place(pod, volume);
    if (!done) {
      errors.push_back(SetUpFailed(volume.name, done.error()));
      continue;
    }
    HOLDFAST_PAUSE_POINT("agent.volume.persistent_placed");
    done->ready = true;
    placed[name] = std::move(*done);
  }
  if (placed == *known) return errors;
  if (auto saved = WritePlacedVolumes(paths, placed); !saved) {
    errors.push_back(std::move(saved.error()));
  }
  return errors;
}

}  // namespace holdfast::agent
