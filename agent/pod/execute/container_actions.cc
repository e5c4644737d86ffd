// SPDX-License-Identifier: Apache-2.0
// PodWorker, third part: starting and removing containers.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/pod/decide/memory.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/execute/pod_worker.h"
#include "agent/pod/spec/container_spec_builder.h"
#include "agent/volume/image_volumes.h"
#include "agent/volume/pod_files.h"
#include "agent/volume/volumes.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {
namespace {

StartFailure CreateFailure(Error error) { return {StartFailure::Phase::kCreate, std::move(error)}; }

}  // namespace

void PodWorker::StartContainer(const Action& action) {
  const auto containers = ContainersOf(*pod_);
  const bool init = std::any_of(containers.begin(), containers.end(), [&](const auto& c) {
    return c.name() == action.container && c.in_init_list();
  });
  auto started = PrepareAndStart(action);
  HOLDFAST_PAUSE_POINT("agent.pod.started");
  const WallTime wall = services_.clock.Wall();
  if (!started) {
    const bool was_created = started.error().phase == StartFailure::Phase::kStart;
    services_.log(StrCat("pod ", PodLabel(*pod_), ": start ", action.container, ": ",
                         started.error().error.message()));
    EventNote note = RecordStartFailure(memory_, action.container, action.attempt, started.error(),
                                        services_.max_back_off, wall, services_.clock.Boot());
    note.init = init;
    if (was_created) {
      Publish(EventNote{false, "Created", "Container created", action.container, init});
    }
    Publish(std::move(note));
    return;
  }
  RecordStarted(memory_, action.container, action.attempt, *started, services_.max_back_off, wall);
  LinkLog(action.container, action.attempt, started->id);
  if (action.attempt >= 2) ForgetOldAttempt(action.container, action.attempt - 2);
  Publish(EventNote{false, "Created", "Container created", action.container, init});
  Publish(EventNote{false, "Started", "Container started", action.container, init});
}

std::expected<StartedContainer, StartFailure> PodWorker::PrepareAndStart(const Action& action) {
  const corev1::Container* container = nullptr;
  for (const SpecContainer& c : ContainersOf(*pod_)) {
    if (c.name() == action.container) container = c.spec;
  }
  auto image = services_.images.Get(container->image());
  if (!image) return std::unexpected(CreateFailure(std::move(image.error())));
  const auto node = services_.node();
  ContainerBuild build{*pod_,
                       *container,
                       *image,
                       *node,
                       paths_,
                       memory_.pod_ips,
                       VolumePaths(*pod_, paths_),
                       NewContainerId(),
                       action.attempt};
  auto image_volumes = MakeImageVolumes(*image, action);
  if (!image_volumes) return std::unexpected(CreateFailure(std::move(image_volumes.error())));
  build.image_volumes = std::move(*image_volumes);
  auto spec = BuildContainerSpec(build);
  if (!spec) return std::unexpected(std::move(spec.error()));
  if (auto ready = PrepareFiles(*spec, *container); !ready) {
    return std::unexpected(CreateFailure(std::move(ready.error())));
  }
  HOLDFAST_PAUSE_POINT("agent.pod.start_prepared");
  return services_.runtime.Start(*spec);
}

Result<std::map<std::string, std::string>> PodWorker::MakeImageVolumes(const Image& image,
                                                                       const Action& action) {
  std::map<std::string, std::string> places;
  for (const ImageVolume& volume : ImageVolumes(image)) {
    const std::string directory =
        paths_.ImageVolume(action.container, action.attempt, places.size());
    RETURN_IF_ERROR(EnsureImageVolume(directory, volume));
    places[volume.path] = directory;
  }
  return places;
}

Result<void> PodWorker::PrepareFiles(const model::ContainerSpec& spec,
                                     const corev1::Container& container) {
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, spec.root_fs.scratch, 0750));
  RETURN_IF_ERROR(sys::MakeDirsBelow(paths_.LogRoot(), paths_.ContainerLogs(spec.name), 0755));
  // Of a pod that an agent before this kind of files started, or of which somebody unmounted them.
  if (!sys::ExistsAt(AT_FDCWD, paths_.Hosts())) {
    RETURN_IF_ERROR(WriteManagedFiles(memory_.pod_ips));
  }
  if (!container.terminationmessagepath().empty()) {
    RETURN_IF_ERROR(MakeTerminationLog(paths_.TerminationLog(spec.name, spec.attempt)));
  }
  for (const model::MountSpec& mount : spec.mounts) {
    if (mount.sub_path.empty()) continue;
    RETURN_IF_ERROR(WithContext(EnsureSubPath(mount.source, mount.sub_path),
                                StrCat("failed to prepare subPath for volumeMount of container \"",
                                       container.name(), "\"")));
  }
  return {};
}

// The links are a convenience for log collectors; a failure is told and does no harm.
void PodWorker::LinkLog(const std::string& container, uint32_t attempt, const ContainerId& id) {
  const std::string link = paths_.LogLink(container, id);
  const auto made = sys::MakeDirs(AT_FDCWD, services_.instance.container_log_dir, 0755);
  if (!made)
    return services_.log(StrCat("link ", link, ": ", made.error().message(), ", ignoring"));
  if (::symlinkat(paths_.LogFile(container, attempt).c_str(), AT_FDCWD, link.c_str()) != 0 &&
      errno != EEXIST) {
    services_.log(StrCat("link ", link, ": ", ::strerrordesc_np(errno), ", ignoring"));
  }
}

void PodWorker::EnsureLogLinks(const std::vector<ContainerFact>& containers) {
  for (const ContainerFact& c : containers) {
    LinkLog(c.observed.name, c.observed.attempt, c.observed.id);
  }
}

// The log of the attempt before stays for `logs --previous`; older ones go.
void PodWorker::ForgetOldAttempt(const std::string& container, uint32_t attempt) {
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
  const ContainerMemory& mine = memory_.containers[container];
  if (!mine.before_last || mine.before_last->id.empty()) return;
  if (auto removed = sys::RemoveFileAt(AT_FDCWD, paths_.LogLink(container, mine.before_last->id));
      !removed) {
    services_.log(StrCat(removed.error().message(), ", ignoring"));
  }
}

Result<void> PodWorker::RemoveContainer(const Action& action) {
  RETURN_IF_ERROR(services_.runtime.Remove(action.id));
  HOLDFAST_PAUSE_POINT("agent.pod.container_removed");
  RETURN_IF_ERROR(
      sys::RemoveFileAt(AT_FDCWD, paths_.TerminationLog(action.container, action.attempt)));
  return RemoveTree(paths_.Attempt(action.container, action.attempt),
                    services_.instance.AsideDir());
}

}  // namespace holdfast::agent
