// SPDX-License-Identifier: Apache-2.0
// NetworkUpkeep: the pod network as a whole, beside the pods' own set-ups: its parts of the node are put in order again, and
// what pods that went have had is freed. Both on the node's lane; what goes wrong is logged, and tried again by the next.
// Thread-safe, from PodTurns::Start() on.
#pragma once

#include <atomic>

#include "agent/pod/execute/pod_turns.h"
#include "agent/pod/operate/services.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

class NetworkUpkeep {
 public:
  // Uses both until the turns have stopped.
  NetworkUpkeep(PodServices& services, PodTurns& turns) : services_(services), turns_(turns) {}

  void Ensure();
  // A pod is gone: what it had is looked for in a moment, once for all that go until then.
  void NotePodGone();

 private:
  void Release();
  void Tell(const Result<void>& done);

  PodServices& services_;
  PodTurns& turns_;
  std::atomic<bool> release_due_{false};
};

}  // namespace holdfast::agent
