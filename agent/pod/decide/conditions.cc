// SPDX-License-Identifier: Apache-2.0
// Pod conditions in the order a kubelet writes them, with its reasons.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/kube/pod_status.h"
#include "agent/pod/decide/planning.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

struct State {
  bool is_true = true;
  std::string reason;
  std::string message;
};

// "[a b]"
std::string Bracketed(const std::vector<std::string>& names) {
  std::string out = "[";
  for (const std::string& name : names) out += (out.size() > 1 ? " " : "") + name;
  return out + "]";
}

State Terminal(const std::string& phase) {
  return {false, phase == "Succeeded" ? "PodCompleted" : "PodFailed", ""};
}

State Initialized(const Planning& p, const corev1::PodStatus& status) {
  if (p.memory.initialized) {
    return {true, status.phase() == "Succeeded" ? "PodCompleted" : "", ""};
  }
  std::vector<std::string> incomplete;
  for (const SpecContainer& c : p.containers) {
    if (c.in_init_list() && !p.memory.containers[c.name()].init_done) {
      incomplete.push_back(c.name());
    }
  }
  if (incomplete.empty()) return {};
  // Once initialized a pod stays so, even while its init containers run again.
  const auto known = p.memory.conditions.find("Initialized");
  if (known != p.memory.conditions.end() && known->second.status == "True") return {};
  return {false, "ContainersNotInitialized",
          StrCat("containers with incomplete status: ", Bracketed(incomplete))};
}

State ContainersReady(const Planning& p) {
  if (!p.memory.terminal_phase.empty()) return Terminal(p.memory.terminal_phase);
  std::vector<std::string> unready;
  for (const SpecContainer& c : p.containers) {
    const bool counts = c.role == Role::kMain || c.role == Role::kSidecar;
    if (counts && !IsReady(c, p.memory.containers[c.name()])) unready.push_back(c.name());
  }
  if (unready.empty()) return {};
  return {false, "ContainersNotReady",
          StrCat("containers with unready status: ", Bracketed(unready))};
}

// A manifest file has no say in its pod's status.
const corev1::PodStatus& StatusOfOthers(const Planning& p) {
  return IsReported(p) ? p.pod.status() : corev1::PodStatus::default_instance();
}

// "" when somebody else set the gate's condition to True; nobody does for a pod from a file.
std::string WhyClosed(const Planning& p, const std::string& gate) {
  const auto& conditions = StatusOfOthers(p).conditions();
  const auto it = std::ranges::find(conditions, gate, &corev1::PodCondition::type);
  if (it == conditions.end()) {
    return StrCat("corresponding condition of pod readiness gate \"", gate, "\" does not exist.");
  }
  if (it->status() == "True") return "";
  return StrCat("the status of pod readiness gate \"", gate, "\" is not \"True\", but ",
                it->status());
}

State Ready(const Planning& p, const State& containers_ready) {
  if (!containers_ready.is_true) return containers_ready;
  std::string closed;
  for (const auto& gate : p.pod.spec().readinessgates()) {
    const std::string why = WhyClosed(p, gate.conditiontype());
    if (!why.empty()) closed += StrCat(closed.empty() ? "" : ", ", why);
  }
  if (closed.empty()) return {};
  return {false, "ReadinessGatesNotReady", closed};
}

State AllRestarting(const Planning& p) {
  if (!p.memory.terminal_phase.empty()) return Terminal(p.memory.terminal_phase);
  if (!p.memory.restarting_all || p.memory.ending) return {false, "", ""};
  return {true, "RestartAllContainersStarted", "container exited with restart policy rule"};
}

void Add(Planning& p, corev1::PodStatus& status, const std::string& type, const State& state) {
  const std::string text = state.is_true ? "True" : "False";
  ConditionMemory& known = p.memory.conditions[type];
  if (known.status != text) known = ConditionMemory{text, p.facts.wall};
  corev1::PodCondition* condition = status.add_conditions();
  condition->set_type(type);
  condition->set_status(text);
  if (p.pod.metadata().generation() != 0) {
    condition->set_observedgeneration(p.pod.metadata().generation());
  }
  condition->mutable_lasttransitiontime()->set_seconds(
      std::chrono::floor<std::chrono::seconds>(known.since.since_epoch).count());
  if (!state.reason.empty()) condition->set_reason(state.reason);
  if (!state.message.empty()) condition->set_message(state.message);
}

// It is there as long as it is true.
void AddResize(const std::optional<ResizeNote>& note, const char* type, corev1::PodStatus& status) {
  if (!note) return;
  const auto seconds = [](WallTime time) {
    return std::chrono::floor<std::chrono::seconds>(time.since_epoch).count();
  };
  corev1::PodCondition* condition = status.add_conditions();
  condition->set_type(type);
  condition->set_status("True");
  if (note->generation != 0) condition->set_observedgeneration(note->generation);
  condition->mutable_lastprobetime()->set_seconds(seconds(note->told));
  condition->mutable_lasttransitiontime()->set_seconds(seconds(note->since));
  if (!note->reason.empty()) condition->set_reason(note->reason);
  if (!note->message.empty()) condition->set_message(note->message);
}

}  // namespace

void AddConditions(Planning& p, corev1::PodStatus& status) {
  const State containers_ready = ContainersReady(p);
  AddResize(p.memory.resize_pending, "PodResizePending", status);
  AddResize(p.memory.resize_in_progress, "PodResizeInProgress", status);
  Add(p, status, "PodReadyToStartContainers", {p.facts.sandbox_ready, "", ""});
  Add(p, status, "Initialized", Initialized(p, status));
  Add(p, status, "Ready", Ready(p, containers_ready));
  Add(p, status, "ContainersReady", containers_ready);
  Add(p, status, "PodScheduled", {});
  if (CouldRestartAll(p.pod)) Add(p, status, "AllContainersRestarting", AllRestarting(p));
  if (p.memory.disrupted) {
    const bool preempted = p.memory.terminal_reason == kPreempting;
    Add(p, status, kube::kDisruptionTarget,
        {true, "TerminationByKubelet",
         preempted ? "Pod was preempted by Kubelet to accommodate a critical pod."
                   : p.memory.terminal_message});
  }
  // What others say of the pod is theirs, and stays.
  for (const corev1::PodCondition& condition : StatusOfOthers(p).conditions()) {
    const bool ours = p.memory.disrupted && condition.type() == kube::kDisruptionTarget;
    if (!ours && !kube::IsNodeCondition(condition.type())) *status.add_conditions() = condition;
  }
}

}  // namespace holdfast::agent
