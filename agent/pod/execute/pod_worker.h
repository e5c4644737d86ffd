// SPDX-License-Identifier: Apache-2.0
// PodWorker: observes one pod, decides, carries out, remembers. No policy: that is decide()'s.
// One thread at a time; different pods in parallel.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/pod/admit/node_admission.h"
#include "agent/pod/decide/types.h"
#include "agent/pod/execute/pod_view_store.h"
#include "agent/pod/spec/node_environment.h"
#include "agent/pod/state/record.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/interfaces/image_store.h"
#include "holdfast/interfaces/pod_network.h"

namespace holdfast::agent {

// What the workers share. Borrowed; outlives them.
struct PodServices {
  ContainerRuntime& runtime;
  ImageStore& images;
  PodNetwork& network;
  PodStateStore& state;
  PodViewStore& view;
  const Clock& clock;
  model::Instance instance;
  std::chrono::seconds max_back_off{300};
  std::function<std::shared_ptr<const NodeEnvironment>()> node;
  std::function<void(const std::string&)> log;  // one line per failure; thread-safe
  NodeAdmission* admission = nullptr;           // none: every pod is taken
};

class PodWorker {
 public:
  PodWorker(PodServices& services, std::shared_ptr<const corev1::Pod> pod, PodMemory memory);

  struct Outcome {
    std::optional<BootTime> wake_at;
    bool gone = false;     // cleaned up: nothing of the pod is left
    bool yielded = false;  // more to do at once, after those that wait
  };
  // Shows a pod that was just heard of as pending, before it has a turn.
  void ShowNew();
  // Whether the node takes the pod, unless that was decided before. Before its first turn: who is
  // heard of first gets the place.
  void EnsureAdmission();
  // Its place on the node is for others from now on. Idempotent; from any thread.
  void GiveUpPlace();
  // Shows the pod as it is now. Nothing is done, remembered or said in events.
  void Show(std::optional<std::chrono::seconds> deletion_grace);
  // `deletion_grace` is set when the pod is to go. Between two actions a long turn ends when
  // `others_wait`; the next Sync goes on with what is left.
  Outcome Sync(std::optional<std::chrono::seconds> deletion_grace,
               const std::function<bool()>& others_wait);

  const corev1::Pod& pod() const { return *pod_; }
  std::shared_ptr<const corev1::Pod> shared_pod() const { return pod_; }

 private:
  PodFacts Observe(std::optional<std::chrono::seconds> deletion_grace);
  ContainerFact Look(const ObservedContainer& observed);
  ImageFact LookAtImage(const std::string& reference);
  bool SandboxReady(const ObservedPod& seen);
  void PublishStatus(const corev1::PodStatus& status,
                     std::optional<std::chrono::seconds> deletion_grace);
  void TellUnsaved(const std::string& why);
  void Publish(EventNote note);
  // Observes, decides, shows and remembers; what is to be done is in left_. Set: there is nothing
  // to do now.
  std::optional<Outcome> DecideNext(std::optional<std::chrono::seconds> deletion_grace);
  Result<void> Persist();

  // False when the actions after it must wait.
  bool Execute(const Action& action);
  bool Finish(const Action& action, const Result<void>& result, const char* event_reason);
  bool EnsurePodVolumes();
  bool EnsurePodSandbox();
  Result<std::vector<std::string>> MakeSandbox();
  Result<void> WriteManagedFiles(const std::vector<std::string>& pod_ips);
  void StartContainer(const Action& action);
  std::expected<StartedContainer, StartFailure> PrepareAndStart(const Action& action);
  Result<std::map<std::string, std::string>> MakeImageVolumes(const Image& image,
                                                              const Action& action);
  Result<void> PrepareFiles(const model::ContainerSpec& spec, const corev1::Container& container);
  void LinkLog(const std::string& container, uint32_t attempt, const ContainerId& id);
  // Once, for what a former agent started and may not have come to link.
  void EnsureLogLinks(const std::vector<ContainerFact>& containers);
  void ForgetOldAttempt(const std::string& container, uint32_t attempt);
  Result<void> RemoveContainer(const Action& action);
  Result<void> RemovePodSandbox();
  Result<void> CleanUp();
  // What cannot be removed holds nothing up: it is set aside (sys/tree.h) and told.
  Result<void> RemoveTree(const std::string& path, const std::string& aside);
  void TellSetAside(const std::string& text);

  PodServices& services_;
  std::shared_ptr<const corev1::Pod> pod_;
  NodeFacts node_facts_;
  PodPaths paths_;
  PodMemory memory_;
  // Decided and not yet done, and the grace period that was decided with.
  std::deque<Action> left_;
  std::optional<std::chrono::seconds> decided_grace_;
  std::string saved_record_;
  std::string unsaved_;  // why the state was not saved, as it was told last
  bool pod_saved_ = false;
  bool volumes_ready_ = false;
  bool links_checked_ = false;
  bool gone_ = false;
};

}  // namespace holdfast::agent
