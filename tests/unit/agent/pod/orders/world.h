// SPDX-License-Identifier: Apache-2.0
// World: a make-believe kernel, clock and prober around the real decide(), memory and record. Operations take their
// time, fail, hang and are cancelled; hints are lost, doubled, late and out of order; the agent is killed between any
// two steps of a turn and goes on with its record; a sandbox is lost; the machine starts again with nothing but
// records; others ask for other amounts and images, evict the pod or write down its end. After some minutes the trouble ends, and the pod comes to rest. Rules looks at every step, EndModel at the
// end. Everything follows from the seed.
//
// An end of an operation is seen by one decision (agent/pod/operate/pod_operations.h), so none is doubled here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/pod/decide/types.h"
#include "tests/unit/agent/pod/orders/dice.h"
#include "tests/unit/agent/pod/orders/random_pod.h"
#include "tests/unit/agent/pod/orders/rules.h"

namespace holdfast::agent::orders {

// A run of a container, as the runtime keeps it until it is removed.
struct Process {
  ContainerId id;
  std::string name;
  uint32_t attempt = 0;
  WallTime started;
  BootTime started_boot;
  Run run;
  std::string image = {};
  Amounts amounts = {};  // that its cgroup has
  std::optional<BootTime> dies_at = {};
  int dies_with = 0;
  std::optional<model::ExitReport> exit = {};
  bool runs() const { return !exit; }
};

struct Operation {
  OperationFact fact;
  BootTime begins_at, takes_effect_at, ends_at;
  OperationEnd::How how = OperationEnd::How::kDone;
  bool took_effect = false;
  bool cancelled = false;
  uint64_t inputs_version = 0;
  std::shared_ptr<const corev1::Pod> pod = {};  // as it was when that was asked for
  std::vector<ContainerId> running = {};        // of a resize: whose cgroups it is about
  OperationEnd end = {};                        // what it has found out by now
};

class World {
 public:
  World(uint64_t seed, bool told);

  // "" when every rule was kept and the end is that of the model; otherwise what was not so.
  std::string Live();
  const std::vector<std::string>& story() const { return story_; }
  int turns() const { return turns_; }

  // What Rules and EndModel look at.
  const RandomPod& random() const { return random_; }
  const std::vector<Process>& processes() const { return processes_; }
  const Process* Running(const std::string& name) const;
  const std::vector<Operation>& operations() const { return operations_; }
  bool sandbox_exists() const { return sandbox_ != Sandbox::kNone; }
  bool sandbox_ready() const { return sandbox_ == Sandbox::kReady; }
  bool sandbox_dying() const { return sandbox_ == Sandbox::kDying; }
  bool volumes() const { return volumes_; }
  bool cleaned() const { return cleaned_; }
  // With what the API server says, and with what it was given of that for good.
  const corev1::Pod& asked() const { return *asked_; }
  const corev1::Pod& given() const { return *given_; }
  bool IsInfeasible() const { return infeasible_; }
  bool IsEvicted() const { return random_.evicted_after && now_ >= born_ + *random_.evicted_after; }
  bool deleted() const { return deletion_grace_.has_value(); }
  BootTime now() const { return now_; }
  const corev1::PodStatus& status() const { return status_; }  // that was remembered last
  bool released() const { return released_; }
  // How every attempt ended that counts: runs, and starts that failed and of which a record tells.
  using Ends = std::map<std::string, std::map<uint32_t, int>>;
  const Ends& ends() const { return ends_; }
  // Runs that were stopped for a probe, as a record tells.
  bool StoppedSick(const std::string& name, uint32_t attempt) const {
    return stopped_sick_.contains({name, attempt});
  }
  // … and those that were stopped to come back otherwise: for a resize, with another image.
  bool StoppedToChange(const std::string& name, uint32_t attempt) const {
    return stopped_to_change_.contains({name, attempt});
  }

 private:
  enum class Sandbox : uint8_t { kNone, kPartial, kReady, kDying };
  enum class CrashPoint : uint8_t {
    kNone,
    kBeforeRecord,
    kAfterRecord,
    kAmongOperations,
    kAfterTurn
  };

  bool Troubled() const { return now_ < trouble_ends_; }
  void Tell(const std::string& text);
  void Fault(const std::string& text) {
    if (fault_.empty()) fault_ = text;
  }

  void Step();
  std::optional<BootTime> NextEvent() const;
  void NoteDeletions();
  void NoteWishes();
  void Fulfil(const Wish& wish);
  void AdvanceOperations();
  void LetProcessesDie();
  void LoseSandbox();
  void Reboot();
  void ForgetRun(const Process& process);
  void Hint();
  bool IsAtRest() const;

  void TakeEffect(Operation& o);
  void StartProcess(Operation& o);
  void ResizeProcesses(Operation& o);
  void SignalProcess(const ContainerId& id);
  void KillProcess(const ContainerId& id);
  void EndOperation(Operation& o);
  void Die(Process& process, int code, int signal);

  void Turn();
  PodFacts Observe();
  void AskForRoom();
  void ObserveOthers(PodFacts& facts) const;
  std::vector<ProbeFact> AskProbes();
  void NoteRemembered(const PodFacts& facts, const Decision& decision);
  void Begin(const Action& action);
  void Cancel(const Action& action);
  void PlanNextTurn(const Decision& decision);
  void NoteNewProbes();
  void Crash();
  PodMemory Newborn() const;

  Dice dice_;
  const bool told_;
  RandomPod random_;
  Rules rules_;
  std::vector<std::string> story_;
  std::string fault_;
  int turns_ = 0;

  BootTime now_{std::chrono::seconds(1000)};
  const std::chrono::nanoseconds wall_minus_boot_ = std::chrono::seconds(1'800'000'000);
  BootTime born_, trouble_ends_, inputs_at_, inputs_change_at_;
  std::optional<BootTime> loss_at_, reboot_at_, object_gone_at_;
  std::optional<std::chrono::seconds> deletion_grace_;
  bool object_gone_ = false;
  size_t wishes_heard_ = 0;
  BootTime room_at_;         // for what it asks for now
  bool infeasible_ = false;  // there never is
  std::shared_ptr<const corev1::Pod> asked_, given_;

  std::vector<Process> processes_;
  Sandbox sandbox_ = Sandbox::kNone;
  bool volumes_ = false;
  std::set<std::string> images_;  // that are here
  bool cleaned_ = false;
  int next_id_ = 0;
  std::map<std::string, size_t> runs_so_far_;
  Ends ends_;
  std::set<std::pair<std::string, uint32_t>> stopped_sick_, stopped_to_change_;

  // The agent. What is in the record outlives it.
  NodeFacts node_;
  PodMemory memory_;
  std::shared_ptr<const corev1::Pod> allocated_;  // as asked, with the amounts that it has
  std::optional<ResizeVerdict> verdict_;
  std::optional<PodMemory> record_;  // as it was when it was written
  std::vector<Operation> operations_;
  std::vector<OperationEnd> ended_;
  std::vector<WantedProbe> probes_;
  BootTime next_turn_;
  bool idle_ = false;  // the turn before wanted nothing and waits for nothing
  corev1::PodStatus status_;
  bool released_ = false;
};

}  // namespace holdfast::agent::orders
