// SPDX-License-Identifier: Apache-2.0
// Internal to decide(): the decision in the making, and its parts.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/decide/types.h"

namespace holdfast::agent {

struct Planning {
  const PodFacts& facts;
  const corev1::Pod& pod;
  PodMemory& memory;
  Decision& decision;
  std::vector<SpecContainer> containers;
  // Waiting states that this decision found; they win over a terminated state.
  std::map<std::string, Failure> waiting;

  ContainerMemory& Memory(const SpecContainer& c) { return memory.containers[c.name()]; }
  // Wanted once, however many reasons there are for it: a container may be unhealthy and have to start again for a resize.
  void Act(Action action) {
    if (std::ranges::find(decision.actions, action) != decision.actions.end()) return;
    decision.actions.push_back(std::move(action));
  }
  void WakeAt(BootTime at) {
    if (!decision.wake_at || at < *decision.wake_at) decision.wake_at = at;
  }
  void Event(bool warning, std::string reason, std::string message, const SpecContainer* c);
};

// A pod of the API server: its object there has to hear of its end before the pod may be forgotten.
bool IsReported(const Planning& p);
bool EndedElsewhere(const Planning& p);  // decide.h
// The record knows of no run of any container.
bool NeverRan(const PodMemory& memory);

// Whether a container runs or may run any moment.
bool AnythingRuns(const Planning& p);
bool IsUnderWay(const Planning& p, const Action& action);

// Folds in how operations ended: memory, events, and when they may be tried again.
void AbsorbEnds(Planning& p);
// Splits the actions into what may begin now and what has to wait; cancels what nobody wants any
// more, tells what takes too long.
void PlanOperations(Planning& p);

// Starts what is to run: volumes, sandbox, init containers in order, then the rest.
void PlanStarts(Planning& p);

// RestartAllContainers: kills what still runs, without grace. FinishRestartAll, once nothing runs,
// makes every container start from the beginning, in the same sandbox.
void PlanRestartAll(Planning& p);
void FinishRestartAll(Planning& p);
inline constexpr char kRestartingAll[] = "RestartingAllContainers";
inline constexpr char kRestartingAllMessage[] =
    "The container is removed because RestartAllContainers in place";

// Keeps what the node said to what the pod asks for.
void NoteAllocation(Planning& p);
// Makes the cgroups show what the pod was given, and has containers start again whose resizePolicy says so.
void PlanResize(Planning& p);
void FoldResized(Planning& p, const OperationEnd& end);
void FoldResizeFailed(Planning& p, const OperationEnd& end);
// A resize that has come to its end is told.
void NoteResizeProgress(Planning& p);
// cpu and memory that a running container's cgroup has; null when nobody knows.
const Amounts* AmountsIn(const ContainerMemory& mine);

// Stops running containers of which the spec now names another image; they start again with it. Carries on with what
// was stopped for an image or for amounts.
void PlanChangedContainers(Planning& p);

// Whether the container runs and its postStart hook is over: before that it counts as waiting.
bool Runs(const SpecContainer& c, const ContainerMemory& mine);
// … and its startup probe has passed.
bool HasStarted(const SpecContainer& c, const ContainerMemory& mine);
bool IsReady(const SpecContainer& c, const ContainerMemory& mine);
// What the probes say of the containers that run.
void FoldProbes(Planning& p);
// A sidecar that has started holds up nothing any more.
void NoteStartedSidecars(Planning& p);
// Stops what failed its liveness or startup probe, or its postStart hook; it starts again as its
// policy says.
void PlanUnhealthy(Planning& p);
// The probes that are to run, by what is decided.
void WantProbes(Planning& p);

// By its preStop hook, the signal and, `grace` after the stop began, SIGKILL; `kill_at` when that
// moment is known already. Without `turn` the signal waits until then.
struct StopOrder {
  std::string why;
  std::chrono::seconds grace{30};
  std::optional<BootTime> kill_at = {};
  bool turn = true;
};
void StopOne(Planning& p, const SpecContainer& c, const StopOrder& order);

// Stops everything: main containers at once, then sidecars from the last to the first; then the
// sandbox, and for a deleted pod all that is left of it: of a reported one only when its object is
// gone, until then its volumes.
void PlanEnding(Planning& p);

// Exited containers that memory knows, and running ones that are not ours to keep.
void PlanRemovals(Planning& p);

// False when an image that the container needs is not there, or is to be pulled first; `waiting`,
// actions, events and back-off are then set.
bool ImagesAreThere(Planning& p, const SpecContainer& c);
// A pull begins, was done, has failed.
void TellPulling(Planning& p, const Action& pull);
void FoldPulled(Planning& p, const OperationEnd& end);
void FoldPullFailed(Planning& p, const OperationEnd& end);
// Null for a container that the pod does not have.
const SpecContainer* ContainerOf(const Planning& p, const Action& action);
bool IsImageReason(const std::string& reason);

// Pod phase from the container states; "Succeeded" and "Failed" only when nothing runs.
std::string ComputePhase(const Planning& p);

// The whole status from memory and `waiting`.
corev1::PodStatus ComputeStatus(Planning& p);
void AddConditions(Planning& p, corev1::PodStatus& status);

}  // namespace holdfast::agent
