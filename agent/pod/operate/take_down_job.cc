// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/take_down_job.h"

#include <fcntl.h>

#include <utility>

#include "agent/kube/volume_kinds.h"
#include "agent/pod/operate/log_links.h"
#include "agent/volume/nfs_mounter.h"
#include "agent/volume/persistent_volumes.h"
#include "agent/volume/pod_files.h"
#include "agent/volume/volumes.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/tree.h"

namespace holdfast::agent {

OperationEnd TakeDownJob::CarryOut() { return End(TakeDown()); }

Result<void> TakeDownJob::TakeDown() {
  switch (input_.action.kind) {
    case Action::Kind::kSignal:
      return Signal();
    case Action::Kind::kKill:
      return Kill();
    case Action::Kind::kRemove:
      return RemoveContainer();
    case Action::Kind::kRemoveSandbox:
      return RemovePodSandbox();
    case Action::Kind::kReleaseVolumes:
      return Release();
    case Action::Kind::kCleanUp:
      return CleanUp();
    default:
      return Internal("nothing to take down");
  }
}

Result<void> TakeDownJob::Signal() {
  RETURN_IF_ERROR(services_.runtime.Signal(input_.action.id, input_.action.signal));
  HOLDFAST_PAUSE_POINT("agent.pod.signalled");
  return {};
}

Result<void> TakeDownJob::Kill() {
  RETURN_IF_ERROR(services_.runtime.Kill(input_.action.id));
  HOLDFAST_PAUSE_POINT("agent.pod.killed");
  GiveUpDeadServers();
  return {};
}

// A container that is killed is killed again until it has ended. Nothing to be known of its volumes: nothing to be done.
void TakeDownJob::GiveUpDeadServers() {
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

Result<void> TakeDownJob::RemoveContainer() {
  const Action& action = input_.action;
  RETURN_IF_ERROR(services_.runtime.Remove(action.id));
  HOLDFAST_PAUSE_POINT("agent.pod.container_removed");
  RETURN_IF_ERROR(
      sys::RemoveFileAt(AT_FDCWD, paths_.TerminationLog(action.container, action.attempt)));
  return RemoveTree(paths_.Attempt(action.container, action.attempt),
                    services_.instance.AsideDir());
}

// The namespaces go first: the address is free only when the host side is seen gone.
Result<void> TakeDownJob::RemovePodSandbox() {
  const PodUid uid(input_.pod->metadata().uid());
  RETURN_IF_ERROR(services_.runtime.RemoveSandbox(uid));
  HOLDFAST_PAUSE_POINT("agent.pod.sandbox_removed");
  RETURN_IF_ERROR(services_.network.Teardown(uid));
  HOLDFAST_PAUSE_POINT("agent.pod.network_removed");
  return {};
}

Result<void> TakeDownJob::TakeVolumesAway() {
  RETURN_IF_ERROR(ReleasePersistentVolumes(PodUid(input_.pod->metadata().uid()), paths_,
                                           {services_.csi, services_.nfs, services_.runtime}));
  return ReleaseVolumes(*input_.pod, paths_);
}

// What lay in the volumes is nobody's any more; logs and record stay for those who ask about it.
Result<void> TakeDownJob::Release() {
  RETURN_IF_ERROR(TakeVolumesAway());
  HOLDFAST_PAUSE_POINT("agent.pod.volumes_released");
  RETURN_IF_ERROR(RemoveTree(paths_.Volumes(), services_.instance.AsideDir()));
  return ReleasePodFiles(paths_.Files());
}

Result<void> TakeDownJob::CleanUp() {
  RETURN_IF_ERROR(TakeVolumesAway());
  RETURN_IF_ERROR(ReleasePodFiles(paths_.Files()));
  RETURN_IF_ERROR(RemoveLogLinks(services_.instance.container_log_dir, paths_));
  HOLDFAST_PAUSE_POINT("agent.pod.log_links_removed");
  RETURN_IF_ERROR(RemoveTree(paths_.LogDir(), services_.instance.LogAsideDir()));
  HOLDFAST_PAUSE_POINT("agent.pod.logs_removed");
  ASSIGN_OR_RETURN(const std::string left, services_.state.Remove(*input_.pod));
  if (!left.empty()) Log(left);
  return {};
}

// What cannot be removed holds nothing up: it is set aside (sys/tree.h) and told.
Result<void> TakeDownJob::RemoveTree(const std::string& path, const std::string& aside) {
  ASSIGN_OR_RETURN(const std::string left, sys::RemoveOrSetAside(AT_FDCWD, path, aside));
  if (!left.empty()) Log(left);
  return {};
}

}  // namespace holdfast::agent
