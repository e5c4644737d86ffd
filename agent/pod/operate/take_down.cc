// SPDX-License-Identifier: Apache-2.0
// PodJob: stopping and removing containers, the sandbox, and all that is left of a pod.
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "agent/kube/volume_kinds.h"
#include "agent/pod/operate/pod_job.h"
#include "agent/volume/nfs_mounter.h"
#include "agent/volume/persistent_volumes.h"
#include "agent/volume/pod_files.h"
#include "agent/volume/volumes.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/tree.h"

namespace holdfast::agent {

Result<void> PodJob::Signal() {
  RETURN_IF_ERROR(services_.runtime.Signal(input_.action.id, input_.action.signal));
  HOLDFAST_PAUSE_POINT("agent.pod.signalled");
  return {};
}

Result<void> PodJob::Kill() {
  RETURN_IF_ERROR(services_.runtime.Kill(input_.action.id));
  HOLDFAST_PAUSE_POINT("agent.pod.killed");
  GiveUpDeadServers();
  return {};
}

// A container that is killed is killed again until it has ended. Nothing to be known of its volumes: nothing to be done.
void PodJob::GiveUpDeadServers() {
  if (services_.nfs == nullptr || !kube::HasPersistent(input_.pod->spec())) return;
  const auto placed = ReadPlacedVolumes(paths_);
  if (!placed) return;
  for (const auto& [name, volume] : *placed) {
    if (volume.kind != "nfs" || !services_.nfs->GiveUpWaiting(volume.path)) continue;
    const std::string text = StrCat(
        "error killing pod: its processes wait for the NFS server of volume \"", name,
        "\", which does not answer: what they had written and was not there yet is given up");
    Log(text);
    events_.push_back({true, "FailedKillPod", text, "", false});
  }
}

Result<void> PodJob::RemoveContainer() {
  const Action& action = input_.action;
  RETURN_IF_ERROR(services_.runtime.Remove(action.id));
  HOLDFAST_PAUSE_POINT("agent.pod.container_removed");
  RETURN_IF_ERROR(
      sys::RemoveFileAt(AT_FDCWD, paths_.TerminationLog(action.container, action.attempt)));
  return RemoveTree(paths_.Attempt(action.container, action.attempt),
                    services_.instance.AsideDir());
}

// The namespaces go first: the address is free only when the host side is seen gone.
Result<void> PodJob::RemovePodSandbox() {
  const PodUid uid(input_.pod->metadata().uid());
  RETURN_IF_ERROR(services_.runtime.RemoveSandbox(uid));
  HOLDFAST_PAUSE_POINT("agent.pod.sandbox_removed");
  RETURN_IF_ERROR(services_.network.Teardown(uid));
  HOLDFAST_PAUSE_POINT("agent.pod.network_removed");
  return {};
}

Result<void> PodJob::TakeVolumesAway() {
  RETURN_IF_ERROR(ReleasePersistentVolumes(PodUid(input_.pod->metadata().uid()), paths_,
                                           {services_.csi, services_.nfs, services_.runtime}));
  return ReleaseVolumes(*input_.pod, paths_);
}

// What lay in the volumes is nobody's any more; logs and record stay for those who ask about it.
Result<void> PodJob::Release() {
  RETURN_IF_ERROR(TakeVolumesAway());
  HOLDFAST_PAUSE_POINT("agent.pod.volumes_released");
  RETURN_IF_ERROR(RemoveTree(paths_.Volumes(), services_.instance.AsideDir()));
  return ReleasePodFiles(paths_.Files());
}

Result<void> PodJob::CleanUp() {
  RETURN_IF_ERROR(TakeVolumesAway());
  RETURN_IF_ERROR(ReleasePodFiles(paths_.Files()));
  RETURN_IF_ERROR(RemoveLogLinks());
  HOLDFAST_PAUSE_POINT("agent.pod.log_links_removed");
  RETURN_IF_ERROR(RemoveTree(paths_.LogDir(), services_.instance.LogAsideDir()));
  HOLDFAST_PAUSE_POINT("agent.pod.logs_removed");
  ASSIGN_OR_RETURN(const std::vector<std::string> left, services_.state.Remove(*input_.pod));
  for (const std::string& text : left) Log(text);
  return {};
}

Result<void> PodJob::RemoveLogLinks() {
  const std::string& directory = services_.instance.container_log_dir;
  const auto links = sys::OpenDir(directory);
  if (!links) return {};  // none was ever made
  const std::string prefix = paths_.LogLinkPrefix();
  ASSIGN_OR_RETURN(const auto names, sys::ListDirAt(links->get(), "."));
  for (const std::string& name : names) {
    if (!name.starts_with(prefix)) continue;
    std::string target(4096, '\0');
    const ssize_t n = ::readlinkat(links->get(), name.c_str(), target.data(), target.size());
    target.resize(n > 0 ? static_cast<size_t>(n) : 0);
    if (target.starts_with(paths_.LogDir() + "/")) {
      RETURN_IF_ERROR(sys::RemoveFileAt(links->get(), name));
    }
  }
  return {};
}

// What cannot be removed holds nothing up: it is set aside (sys/tree.h) and told.
Result<void> PodJob::RemoveTree(const std::string& path, const std::string& aside) {
  ASSIGN_OR_RETURN(const std::string left, sys::RemoveOrSetAside(AT_FDCWD, path, aside));
  if (!left.empty()) Log(left);
  return {};
}

}  // namespace holdfast::agent
