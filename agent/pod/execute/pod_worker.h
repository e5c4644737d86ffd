// SPDX-License-Identifier: Apache-2.0
// PodWorker: a pod's turns. A turn observes the pod, decides, remembers, begins operations and
// ends; it waits for nothing but the kernel's quick answers. No policy: that is decide()'s. One
// thread at a time; different pods in parallel.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/decide/types.h"
#include "agent/pod/execute/saved_pod.h"
#include "agent/pod/operate/pod_job.h"
#include "agent/pod/operate/pod_operations.h"
#include "agent/pod/operate/services.h"
#include "agent/pod/state/record.h"
#include "agent/report/pod_reporter.h"
#include "agent/view/pod_view_store.h"

namespace holdfast::agent {

class PodWorker {
 public:
  // `poke` is called when an operation has ended: a turn is due. From any thread.
  PodWorker(PodServices& services, LanePool& pool, std::shared_ptr<const corev1::Pod> pod,
            PodMemory memory, std::chrono::seconds operation_deadline, std::function<void()> poke);

  // The newest that is wanted.
  struct Wish {
    std::shared_ptr<const corev1::Pod> pod;
    std::optional<std::chrono::seconds> deletion_grace = {};  // set when the pod is to go
    bool object_gone = false;  // of a pod of the API server: it has no object there any more
    bool gives_way = false;    // to a static pod of its name: it goes as if it had none
    std::optional<Eviction> eviction = {};  // the node wants it to end
  };
  struct Outcome {
    std::optional<BootTime> wake_at = {};
    bool gone = false;          // cleaned up: nothing of the pod is left
    bool awaits_image = false;  // one of its images is not here
  };
  // Shows a pod that was just heard of as pending, before it has a turn.
  void ShowNew();
  // Whether the node takes the pod, unless that was decided before. Before its first turn: who is
  // heard of first gets the place.
  void EnsureAdmission();
  // Its place on the node is for others from now on. Idempotent; from any thread. `how`: NodeAdmission::Release().
  void GiveUpPlace(const char* how);
  // Shows the pod as it is now. Nothing is done, remembered or said in events.
  void Show(const Wish& wish);
  Outcome Turn(const Wish& wish);

 private:
  void AskForRoom(const Wish& wish);
  void CountVerdict(const ResizeVerdict& verdict) const;
  void TakeAllocated();
  Outcome RunTurn(const Wish& wish);
  void NoteRunning(const std::string& phase);
  PodFacts Observe(const Wish& wish);
  void EnsureLogLinks(const std::vector<ContainerFact>& containers);
  PodInputs* Inputs() const;
  void AcquireInputs();
  void ReleaseInputs();
  void PublishStatus(const corev1::PodStatus& status,
                     std::optional<std::chrono::seconds> deletion_grace);
  void TakeOver(const std::shared_ptr<const corev1::Pod>& pod);
  bool HasEndedElsewhere() const;
  bool MustLast(const Wish& wish) const;
  void TellLeftOut();
  void TellUnsaved(const std::string& why);
  void Report(const Wish& wish, Decision& decision);
  void Operate(const Decision& decision);
  void Begin(const Action& action);
  void BeginPull(const Action& action, PodJobInput& input);
  void BeginHookOf(const Action& action);
  void LookAtProbes(PodFacts& facts);
  void WantProbes(const std::vector<WantedProbe>& probes);

  PodServices& services_;
  const std::chrono::seconds operation_deadline_;
  std::shared_ptr<const corev1::Pod> pod_;        // as it is wanted
  std::shared_ptr<const corev1::Pod> allocated_;  // with the amounts that it was given
  std::optional<ResizeVerdict> verdict_;          // on the others that it asks for
  NodeFacts node_facts_;
  PodPaths paths_;
  PodMemory memory_;
  PodOperations operations_;
  SavedPod saved_;
  std::string unsaved_;              // why the state was not saved, as it was told last
  PodReport reported_;               // the newest
  std::vector<WantedProbe> probes_;  // what the prober was told last
  std::optional<BootTime> heard_;    // of a pod that is new to this agent, until it runs
  bool first_turn_ = true;
  bool told_left_out_ = false;
  bool links_checked_ = false;
  bool inputs_held_ = false;
  bool look_again_ = false;  // a log was not written yet
};

}  // namespace holdfast::agent
