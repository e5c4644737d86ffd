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
#include "agent/pod/execute/held_inputs.h"
#include "agent/pod/execute/pod_place.h"
#include "agent/pod/execute/saved_pod.h"
#include "agent/pod/execute/told_pod.h"
#include "agent/pod/operate/pod_operations.h"
#include "agent/pod/operate/services.h"
#include "agent/pod/state/paths.h"

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
  void GiveUpPlace(const char* how) const { place_.GiveUp(how); }
  // Shows the pod as it is now. Nothing is done, remembered or said in events.
  void Show(const Wish& wish);
  Outcome Turn(const Wish& wish);

 private:
  Outcome RunTurn(const Wish& wish);
  void TakeOver(const std::shared_ptr<const corev1::Pod>& pod);
  PodFacts Observe(const Wish& wish);
  void EnsureLogLinks(const std::vector<ContainerFact>& containers);
  bool Save(bool must_last);
  void Report(const Wish& wish, const Decision& decision);
  void Operate(const Decision& decision);
  void Begin(const Action& action);
  void BeginHookOf(const Action& action);
  void WantProbes(const std::vector<WantedProbe>& probes);
  bool HasEndedElsewhere() const;
  bool MustLast(const Wish& wish) const;
  const Ending* Deletion(const Wish& wish) const;

  PodServices& services_;
  const std::chrono::seconds operation_deadline_;
  std::shared_ptr<const corev1::Pod> pod_;  // as it is wanted
  PodPaths paths_;
  PodMemory memory_;
  PodPlace place_;
  HeldInputs inputs_;
  PodOperations operations_;
  SavedPod saved_;
  ToldPod told_;
  NodeFacts node_facts_;             // the turn's
  std::vector<WantedProbe> probes_;  // what the prober was told last
  bool first_turn_ = true;
  bool links_checked_ = false;
  bool look_again_ = false;  // a log was not written yet
};

}  // namespace holdfast::agent
