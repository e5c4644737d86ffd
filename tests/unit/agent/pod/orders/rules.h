// SPDX-License-Identifier: Apache-2.0
// Rules: what holds at every moment of a pod's life, whatever happens to it. Written from what Kubernetes promises, not
// from decide(). Each function returns "" or the rule that was broken.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "agent/pod/decide/types.h"
#include "tests/unit/agent/pod/orders/random_pod.h"

namespace holdfast::agent::orders {

class World;
struct Process;
struct Operation;

class Rules {
 public:
  explicit Rules(const World& world) : world_(world) {}

  // Before a decision is made of them.
  void NoteFacts(const PodFacts& facts);
  // A decision was made of these facts.
  std::string LookAt(const PodFacts& facts, const Decision& decision);
  // … and is on record.
  std::string NoteRemembered(const Decision& decision);
  // An operation begins, takes effect.
  std::string Begins(const Action& action);
  std::string TakesEffect(const Action& action);
  void NoteNewSandbox() { done_.clear(); }
  void NoteExit(const Process& process);

 private:
  void NoteRestartOfAll(const PodFacts& facts);
  void NoteStops(const Decision& decision);
  std::string CheckStatus(const PodFacts& facts, const corev1::PodStatus& status) const;
  static std::string CheckWaits(const PodFacts& facts, const Action& action);
  std::string CheckStart(const Action& action) const;
  std::string CheckSignal(const Action& action) const;
  std::string CheckKill(const Action& action) const;
  std::chrono::seconds LeastGrace(const std::string& container) const;
  std::optional<BootTime> StopBegan(const ContainerId& id) const;

  const World& world_;
  std::set<std::string>
      done_;  // init containers that are done, sidecars that have started: in this sandbox
  std::set<ContainerId> started_up_, hook_done_, pre_stop_over_, restarted_all_;
  std::map<ContainerId, BootTime> stop_began_, signalled_;
  std::optional<BootTime> ending_began_;
  std::chrono::seconds least_deletion_grace_{1 << 20};
  std::string phase_;  // the last one, once there is one on record
  std::map<std::string, int> restarts_;
};

}  // namespace holdfast::agent::orders
