// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/start_job.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/kube/volume_kinds.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/operate/log_links.h"
#include "agent/pod/operate/managed_files.h"
#include "agent/pod/spec/container_spec_builder.h"
#include "agent/volume/block_device.h"
#include "agent/volume/image_volumes.h"
#include "agent/volume/mounted_images.h"
#include "agent/volume/nfs_mounter.h"
#include "agent/volume/pod_files.h"
#include "agent/volume/volume_text.h"
#include "agent/volume/volumes.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMostEnvFile = 1 << 20;
constexpr mode_t kLogFileMode = 0640;

std::unexpected<StartFailure> CreateFailure(Error error) {
  return std::unexpected(StartFailure{StartFailure::Phase::kCreate, std::move(error)});
}

// The logger opens it while the program runs already; a container whose log cannot be is not to run at all. What is there
// the logger looks at: others can write into that directory.
Result<void> MakeLogFile(const DirFd& dir, const std::string& name) {
  const UniqueFd made(
      ::openat(dir.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kLogFileMode));
  if (!made && errno != EEXIST) return Error::FromErrno(errno, StrCat("make log file ", name));
  struct stat st{};
  const bool is_directory = !made &&
                            ::fstatat(dir.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                            S_ISDIR(st.st_mode);
  if (is_directory) return Error::FromErrno(EISDIR, StrCat("make log file ", name));
  return {};
}

}  // namespace

OperationEnd StartJob::CarryOut() {
  auto started = PrepareAndStart();
  HOLDFAST_PAUSE_POINT("agent.pod.started");
  OperationEnd end;
  end.events = std::move(events_);
  if (started) {
    end.started = std::move(*started);
    if (auto linked = LinkLog(services_.instance.container_log_dir, paths_, input_.action.container,
                              input_.action.attempt, end.started->id);
        !linked) {
      Log(StrCat(linked.error().message(), ", ignoring"));
    }
    if (input_.action.attempt >= 2) ForgetOldAttempt(input_.action.attempt - 2);
  } else if (gave_up_) {
    end.how = OperationEnd::How::kCancelled;
  } else {
    Log(StrCat("start ", input_.action.container, ": ", started.error().error.message()));
    end.how = OperationEnd::How::kFailed;
    end.start_failure = std::move(started.error());
  }
  return end;
}

std::expected<StartedContainer, StartFailure> StartJob::PrepareAndStart() {
  const SpecContainer found = ContainerNamed(*input_.pod, input_.action.container);
  const corev1::Container* const container = found.spec;
  if (!found.target.empty() && input_.target.empty()) {
    return std::unexpected(
        StartFailure{StartFailure::Phase::kConfig,
                     NotFound(StrCat("unable to find target container ", found.target))});
  }
  // By its id: what was decided and recorded, even if the name means another image by now.
  auto image = services_.images.Get(input_.image_id);
  if (!image) return CreateFailure(std::move(image.error()));
  if (!image->artifact_type.empty()) {
    return CreateFailure(
        InvalidArgument(StrCat("image \"", container->image(), "\" is an OCI artifact (",
                               image->artifact_type, "), which can be a volume, but cannot run")));
  }
  const auto persistent = ReadPlacedVolumes(paths_);
  if (!persistent) return CreateFailure(persistent.error());
  const auto node = services_.node();
  ContainerBuild build{*input_.pod,
                       *container,
                       *image,
                       *node,
                       paths_,
                       input_.pod_ips,
                       PlacesOfVolumes(*input_.pod, paths_, *persistent),
                       NewContainerId(),
                       input_.action.attempt};
  if (auto mounted = MountImages(*container); !mounted) {
    return CreateFailure(std::move(mounted.error()));
  }
  auto image_volumes = MakeImageVolumes(*image);
  if (!image_volumes) return CreateFailure(std::move(image_volumes.error()));
  build.image_volumes = std::move(*image_volumes);
  build.inputs = input_.inputs;
  build.target = input_.target;
  build.read_volume_text = [](const std::string& volume, const std::string& path) {
    return ReadVolumeText(volume, path, kMostEnvFile);
  };
  auto devices = FindDevices(*container, *persistent);
  if (!devices) return CreateFailure(std::move(devices.error()));
  build.devices = std::move(*devices);
  auto spec = BuildContainerSpec(build);
  if (!spec) return std::unexpected(std::move(spec.error()));
  if (auto fine = CheckServers(*spec, *persistent); !fine) {
    return CreateFailure(std::move(fine.error()));
  }
  if (auto ready = PrepareFiles(*spec, *container); !ready) {
    return CreateFailure(std::move(ready.error()));
  }
  HOLDFAST_PAUSE_POINT("agent.pod.start_prepared");
  if (GivesUp()) return CreateFailure(Conflict("not wanted any more"));
  return services_.runtime.Start(*spec);
}

Result<std::map<std::string, std::string>> StartJob::MakeImageVolumes(const Image& image) {
  std::map<std::string, std::string> places;
  for (const ImageVolume& volume : ImageVolumes(image)) {
    const std::string directory =
        paths_.ImageVolume(input_.action.container, input_.action.attempt, places.size());
    RETURN_IF_ERROR(EnsureImageVolume(directory, volume));
    places[volume.path] = directory;
  }
  return places;
}

Result<DevicePlaces> StartJob::FindDevices(const corev1::Container& container,
                                           const PlacedVolumes& placed) {
  const PodUid uid(input_.pod->metadata().uid());
  DevicePlaces places;
  for (const corev1::VolumeDevice& wish : container.volumedevices()) {
    const auto volume = placed.find(wish.name());
    if (volume == placed.end() || !volume->second.ready || !volume->second.block) continue;
    ASSIGN_OR_RETURN(const model::BlockDevice device,
                     BlockDeviceOf(services_.runtime, uid, wish.name(), volume->second));
    places[wish.name()] = {device, volume->second.read_only};
  }
  return places;
}

Result<void> StartJob::MountImages(const corev1::Container& container) {
  for (const corev1::Volume* volume : kube::MountedImages(input_.pod->spec(), container)) {
    ASSIGN_OR_RETURN(const Image image,
                     services_.images.Get(volume->volumesource().image().reference()));
    RETURN_IF_ERROR(
        WithContext(MountImage(paths_.MountedImage(volume->name()), image.id.value, image.layers),
                    StrCat("mount image volume \"", volume->name(), "\"")));
  }
  return {};
}

// A sub path is looked for below its volume by this thread, which nobody can end while a server does not answer.
Result<void> StartJob::CheckServers(const model::ContainerSpec& spec, const PlacedVolumes& placed) {
  if (services_.nfs == nullptr) return {};
  for (const auto& [name, volume] : placed) {
    const bool below = std::ranges::any_of(spec.mounts, [&path = volume.path](const auto& mount) {
      return mount.source == path && !mount.sub_path.empty();
    });
    if (volume.kind != "nfs" || !below) continue;
    RETURN_IF_ERROR(services_.nfs->Answers(volume.path, cancelled_));
  }
  return {};
}

Result<void> StartJob::PrepareFiles(const model::ContainerSpec& spec,
                                    const corev1::Container& container) {
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, spec.root_fs.scratch, 0750));
  ASSIGN_OR_RETURN(const DirFd logs,
                   sys::MakeDirsBelow(paths_.LogRoot(), paths_.ContainerLogs(spec.name), 0755));
  RETURN_IF_ERROR(MakeLogFile(logs, PodPaths::LogFileName(spec.attempt)));
  // Of a pod that an agent before this kind of files started, or of which somebody unmounted them.
  if (!sys::ExistsAt(AT_FDCWD, paths_.Hosts())) {
    const auto node = services_.node();
    RETURN_IF_ERROR(WriteManagedFiles(*input_.pod, *node, paths_, input_.pod_ips,
                                      ResolvConfFile(*input_.pod, *node)));
  }
  if (!container.terminationmessagepath().empty()) {
    RETURN_IF_ERROR(MakeTerminationLog(paths_.TerminationLog(spec.name, spec.attempt)));
  }
  for (const model::MountSpec& mount : spec.mounts) {
    if (mount.sub_path.empty()) continue;
    RETURN_IF_ERROR(WithContext(EnsureSubPath(mount),
                                StrCat("failed to prepare subPath for volumeMount of container \"",
                                       container.name(), "\"")));
  }
  return {};
}

// The log of the attempt before stays for `logs --previous`; older ones go.
void StartJob::ForgetOldAttempt(uint32_t attempt) {
  const std::string& container = input_.action.container;
  const std::string leaf = PodPaths::LogFileName(attempt);
  const auto dir = sys::OpenDirBelow(paths_.LogRoot(), paths_.ContainerLogs(container));
  if (!dir && dir.error().code() != Code::kNotFound) {
    services_.log(StrCat("forget old log: ", dir.error().message(), ", ignoring"));
  }
  if (!dir) return;
  const auto names = sys::ListDirAt(dir->get(), ".");
  if (!names) return;  // gone already
  for (const std::string& name : *names) {
    // The file itself and its rotated parts "0.log.<time>[.gz]".
    if (name != leaf && !name.starts_with(leaf + ".")) continue;
    if (auto removed = sys::RemoveFileAt(dir->get(), name); !removed) {
      services_.log(StrCat(removed.error().message(), ", ignoring"));
    }
  }
  if (input_.before_last.empty()) return;
  if (auto removed = sys::RemoveFileAt(AT_FDCWD, paths_.LogLink(container, input_.before_last));
      !removed) {
    services_.log(StrCat(removed.error().message(), ", ignoring"));
  }
}

}  // namespace holdfast::agent
