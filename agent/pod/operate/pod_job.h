// SPDX-License-Identifier: Apache-2.0
// PodJob: one operation of one pod, carried out. It owns what it needs of the pod as that was when
// the operation was decided, so that it runs beside the pod's turns. No policy: that is decide()'s.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/pod/decide/types.h"
#include "agent/pod/operate/services.h"
#include "agent/pod/spec/files.h"
#include "agent/pod/state/paths.h"
#include "agent/volume/persistent_volume.h"
#include "agent/volume/placed_volumes.h"
#include "agent/volume/volume_place.h"

namespace holdfast::agent {

struct PodJobInput {
  std::shared_ptr<const corev1::Pod> pod;
  Action action;
  std::vector<std::string> pod_ips;  // kStart
  std::string image_id;              // kStart: what was decided to run
  ContainerId before_last;           // kStart: the run whose log link goes
  ContainerId target = {};           // kStart of an ephemeral container: whose processes it sees
  // kEnsureSandbox: the next attempt of each container.
  std::map<std::string, uint32_t> attempts = {};
  std::map<std::string, ContainerId> running = {};  // kResize: but ephemeral ones
  BootTime asked = {};                              // kPull: since when it waits
  const PodInputs* inputs = nullptr;  // none: it is made from nothing that an API server has
};

class PodJob {
 public:
  PodJob(PodServices& services, PodJobInput input, const std::atomic<bool>& cancelled);
  // May block for as long as the kernel lets it.
  OperationEnd Run();

 private:
  OperationEnd RunAction();
  // set_up.cc
  OperationEnd EnsureAllVolumes();
  Result<void> MakeVolumes();
  Result<void> MakePersistentVolumes(const std::string& node_name);
  void KeepInputs();
  // growth.cc
  void GrowClaims(const PersistentVolumes& volumes);
  Result<void> GrowClaim(const PersistentVolume& volume, const PlacedVolume& place);
  Result<void> NotGrown(const kube::Claim& claim, Error error);
  Result<CsiSecrets> ExpandSecrets(const PersistentVolume& volume) const;
  Result<std::vector<std::string>> MakeSandbox();
  Result<std::vector<std::string>> MakeNetwork(const model::SandboxSpec& spec,
                                               const ResolvConf& resolv_conf);
  Result<void> WriteManagedFiles(const std::vector<std::string>& pod_ips,
                                 const ResolvConf& resolv_conf);
  void ReserveMessages();
  // resize.cc
  OperationEnd Resize();
  // start.cc
  OperationEnd Start();
  std::expected<StartedContainer, StartFailure> PrepareAndStart();
  Result<std::map<std::string, std::string>> MakeImageVolumes(const Image& image);
  Result<DevicePlaces> FindDevices(const corev1::Container& container, const PlacedVolumes& placed);
  Result<void> MountImages(const corev1::Container& container);
  Result<void> CheckServers(const model::ContainerSpec& spec, const PlacedVolumes& placed);
  Result<void> PrepareFiles(const model::ContainerSpec& spec, const corev1::Container& container);
  void ForgetOldAttempt(uint32_t attempt);
  // pull.cc
  OperationEnd Pull();
  Result<PulledImage> PullImage(const std::string& reference);
  // take_down.cc
  Result<void> Signal();
  Result<void> Kill();
  void GiveUpDeadServers();
  Result<void> RemoveContainer();
  Result<void> RemovePodSandbox();
  Result<void> TakeVolumesAway();
  Result<void> Release();
  Result<void> CleanUp();
  Result<void> RemoveLogLinks();
  Result<void> RemoveTree(const std::string& path, const std::string& aside);

  // True when the operation is to stop here.
  bool GivesUp();
  OperationEnd End(Result<void> result);
  void Log(const std::string& text) const;

  PodServices& services_;
  const PodJobInput input_;
  const PodPaths paths_;
  const std::atomic<bool>& cancelled_;
  bool gave_up_ = false;  // nobody wants it any more, and it stopped for that
  std::vector<EventNote> events_;
};

// The link to a run's log in containerLogDir: a convenience for log collectors, so a failure is
// told and does no harm.
void LinkLog(const PodServices& services, const PodPaths& paths, const std::string& container,
             uint32_t attempt, const ContainerId& id);

}  // namespace holdfast::agent
