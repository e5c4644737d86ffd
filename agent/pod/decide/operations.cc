// SPDX-License-Identifier: Apache-2.0
// Operations as facts: what their ends mean, and which actions may begin beside what is under way.
#include <algorithm>
#include <set>
#include <utility>

#include "agent/kube/diagnostic.h"
#include "agent/kube/volume_kinds.h"
#include "agent/pod/decide/memory.h"
#include "agent/pod/decide/planning.h"
#include "agent/pod/decide/shown_volumes.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using Kind = Action::Kind;

// After a failure, and after a success that was not enough (a kill that has not ended it yet).
constexpr std::chrono::seconds kAfterFailure{10};
constexpr std::chrono::seconds kAfterSuccess{1};
// A mount's, doubled each time.
constexpr std::chrono::milliseconds kAfterFirstMount{500};
constexpr std::chrono::seconds kLongestAfterMount{122};

// What was observed after this end may have overtaken it: it runs already, or has ended.
void FoldStarted(Planning& p, const OperationEnd& end) {
  ContainerMemory& mine = p.memory.containers[end.action.container];
  const bool ended_already = mine.last && mine.last->attempt >= end.action.attempt;
  if (mine.current && mine.current->id == end.started->id) {
    if (end.started->user) mine.current->user = UserIdsOf(end.started->user);
  } else if (!ended_already) {
    RecordStarted(p.memory, end.action.container, end.action.attempt, *end.started,
                  p.facts.node->max_back_off, end.wall);
  }
  const SpecContainer* container = ContainerOf(p, end.action);
  p.Event(false, "Created", "Container created", container);
  p.Event(false, "Started", "Container started", container);
}

void FoldStart(Planning& p, const OperationEnd& end) {
  if (end.started) return FoldStarted(p, end);
  EventNote note =
      RecordStartFailure(p.memory, end.action.container, end.action.attempt, *end.start_failure,
                         p.facts.node->max_back_off, end.wall, end.boot);
  const SpecContainer* container = ContainerOf(p, end.action);
  if (end.start_failure->phase == StartFailure::Phase::kStart) {
    p.Event(false, "Created", "Container created", container);
  }
  p.Event(note.warning, std::move(note.reason), std::move(note.message), container);
}

void FoldSetUpFailure(Planning& p, const OperationEnd& end, const std::string& reason,
                      const std::string& event, BootTime retry_at) {
  p.memory.failure = Failure{reason, end.error, retry_at};
  p.memory.failure->inputs_version = end.inputs_version;
  p.Event(true, event, end.error, nullptr);
}

// Of a block device a kubelet tells with another reason, unless it is the wrong node.
std::string MountEvent(const std::string& error) {
  const bool maps = error.starts_with("MapVolume.") && !error.starts_with("MapVolume.NodeAffinity");
  return maps ? "FailedMapVolume" : "FailedMount";
}

// Of the container that is meant, not of one that took its place.
void FoldStop(Planning& p, const OperationEnd& end) {
  const ContainerMemory& mine = p.memory.containers[end.action.container];
  if (!mine.current || mine.current->id != end.action.id) return;
  if (end.action.kind == Kind::kSignal) {
    RecordSignalled(p.memory, end.action.container, end.wall, end.boot);
  } else {
    RecordKilled(p.memory, end.action.container, end.boot);
  }
}

// Of the run that is meant, and of nobody that took its place.
Current* RunOf(Planning& p, const Action& action) {
  ContainerMemory& mine = p.memory.containers[action.container];
  return mine.current && mine.current->id == action.id ? &*mine.current : nullptr;
}

// A kubelet keeps what a hook said out of the event, and shows it while the container waits.
void FoldPostStart(Planning& p, const OperationEnd& end, bool failed) {
  Current* const run = RunOf(p, end.action);
  if (failed) {
    p.Event(true, "FailedPostStartHook", "PostStartHook failed", ContainerOf(p, end.action));
    if (run != nullptr) run->post_start_error = end.error;
  } else if (run != nullptr) {
    run->post_started = true;
  }
}

void FoldPreStop(Planning& p, const OperationEnd& end, bool failed) {
  if (failed) p.Event(true, "FailedPreStopHook", "PreStopHook failed", ContainerOf(p, end.action));
  ContainerMemory& mine = p.memory.containers[end.action.container];
  if (RunOf(p, end.action) != nullptr && mine.stop) mine.stop->pre_stop_over = true;
}

void FoldDone(Planning& p, const OperationEnd& end) {
  switch (end.action.kind) {
    case Kind::kEnsureVolumes:
      p.memory.volumes_made = true;
      p.memory.volume_failures = 0;
      p.memory.volumes_version = end.inputs_version;
      p.memory.volumes_show = p.memory.volumes_will_show;
      break;
    case Kind::kEnsureSandbox:
      RecordSandbox(p.memory, end.pod_ips);
      break;
    case Kind::kResize:
      FoldResized(p, end);
      break;
    case Kind::kPull:
      FoldPulled(p, end);
      break;
    case Kind::kStart:
      FoldStart(p, end);
      break;
    case Kind::kPostStart:
      FoldPostStart(p, end, false);
      break;
    case Kind::kPreStop:
      FoldPreStop(p, end, false);
      break;
    case Kind::kSignal:
    case Kind::kKill:
      FoldStop(p, end);
      break;
    case Kind::kReleaseVolumes:
      p.memory.released = true;
      break;
    case Kind::kRemove:
    case Kind::kRemoveSandbox:
    case Kind::kCleanUp:
      break;
  }
}

std::chrono::milliseconds PauseAfterFailure(Planning& p, const OperationEnd& end) {
  if (end.action.kind != Kind::kEnsureVolumes) return kAfterFailure;
  const unsigned doublings = std::min(p.memory.volume_failures++, 8u);
  return std::min<std::chrono::milliseconds>(kAfterFirstMount * (1u << doublings),
                                             kLongestAfterMount);
}

// `failed to "KillContainer" for "web" with KillContainerError: "…"`
std::string SyncFailure(const char* action, const std::string& target, const char* code,
                        const std::string& message) {
  return StrCat("failed to \"", action, "\" for \"", target, "\" with ", code, ": ",
                kube::Quoted(message, message.size()));
}

// In a kubelet's words; of what it does without telling anybody in words of our own.
std::string KillFailure(const Planning& p, const OperationEnd& end) {
  switch (end.action.kind) {
    case Kind::kSignal:
    case Kind::kKill:
      return SyncFailure("KillContainer", end.action.container, "KillContainerError", end.error);
    case Kind::kRemoveSandbox:
      return SyncFailure("KillPodSandbox", p.pod.metadata().uid(), "KillPodSandboxError",
                         end.error);
    default:
      return StrCat(ToString(end.action), ": ", end.error);
  }
}

void FoldFailed(Planning& p, const OperationEnd& end, BootTime retry_at) {
  switch (end.action.kind) {
    case Kind::kEnsureVolumes:
      return FoldSetUpFailure(p, end, "FailedMount", MountEvent(end.error), retry_at);
    case Kind::kEnsureSandbox:
      return FoldSetUpFailure(p, end, "FailedCreatePodSandBox", "FailedCreatePodSandBox", retry_at);
    case Kind::kResize:
      return FoldResizeFailed(p, end);
    case Kind::kPull:
      return FoldPullFailed(p, end);
    case Kind::kStart:
      return FoldStart(p, end);
    case Kind::kPostStart:
      return FoldPostStart(p, end, true);
    case Kind::kPreStop:
      return FoldPreStop(p, end, true);
    default:
      p.Event(true, "FailedKillPod", StrCat("error killing pod: ", KillFailure(p, end)), nullptr);
  }
}

// How a later action depends on one before it in the list, or on one that is still under way.
// What is not named here goes side by side.
bool HoldsUp(const Action& before, const Action& action) {
  const auto is = [&](std::initializer_list<Kind> kinds) {
    return std::ranges::find(kinds, before.kind) != kinds.end();
  };
  switch (action.kind) {
    case Kind::kEnsureVolumes:
      return is({Kind::kReleaseVolumes, Kind::kCleanUp});
    case Kind::kEnsureSandbox:
      return is({Kind::kResize, Kind::kStart, Kind::kKill, Kind::kRemove, Kind::kRemoveSandbox,
                 Kind::kReleaseVolumes, Kind::kCleanUp});
    case Kind::kResize:  // what starts has the amounts that were decided before
      return is({Kind::kEnsureSandbox, Kind::kResize, Kind::kStart, Kind::kRemoveSandbox,
                 Kind::kCleanUp});
    case Kind::kPull:  // beside volumes and sandbox
      return is({Kind::kCleanUp});
    case Kind::kStart:  // one after the other, in their order; in a pod that has room for it
      return is({Kind::kEnsureVolumes, Kind::kEnsureSandbox, Kind::kResize, Kind::kStart,
                 Kind::kPostStart, Kind::kKill, Kind::kRemoveSandbox, Kind::kReleaseVolumes,
                 Kind::kCleanUp});
    case Kind::kPostStart:
    case Kind::kPreStop:
    case Kind::kSignal:
    case Kind::kKill:
      return false;
    case Kind::kRemove:
      return is({Kind::kKill}) && before.id == action.id;
    case Kind::kRemoveSandbox:
      return is({Kind::kEnsureSandbox, Kind::kResize, Kind::kStart, Kind::kKill, Kind::kRemove,
                 Kind::kCleanUp});
    case Kind::kReleaseVolumes:  // beside the removal of the sandbox
      return is({Kind::kEnsureVolumes, Kind::kEnsureSandbox, Kind::kStart, Kind::kKill,
                 Kind::kRemove, Kind::kCleanUp});
    case Kind::kCleanUp:
      return true;
  }
  return true;
}

bool IsHook(const Action& action) {
  return action.kind == Kind::kPostStart || action.kind == Kind::kPreStop;
}

bool MayBeCancelled(const Action& action) {
  return action.kind == Kind::kEnsureVolumes || action.kind == Kind::kEnsureSandbox ||
         action.kind == Kind::kPull || action.kind == Kind::kStart || IsHook(action);
}

bool IsHeldUp(const Planning& p, size_t index) {
  const std::vector<Action>& wanted = p.decision.actions;
  const auto holds = [&](const Action& before) { return HoldsUp(before, wanted[index]); };
  return std::any_of(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(index), holds) ||
         std::ranges::any_of(p.facts.under_way,
                             [&](const OperationFact& o) { return holds(o.action); });
}

const Pause* PauseOf(const Planning& p, const Action& action) {
  const auto it = std::ranges::find(p.memory.pauses, action, &Pause::action);
  return it == p.memory.pauses.end() ? nullptr : &*it;
}

// As a kubelet does once the sandbox stands, right before it creates the container; once for each
// attempt.
void TellImage(Planning& p, const Action& start) {
  ContainerMemory& mine = p.memory.containers[start.container];
  if (std::exchange(mine.announced_image, start.attempt) == start.attempt) return;
  p.Event(false, "Pulled",
          StrCat("Container image \"", mine.launch->reference,
                 "\" already present on machine and can be accessed by the pod"),
          ContainerOf(p, start));
}

// What may hang: what others serve or mount; without any, whatever it is that hangs.
std::string VolumesThatHang(const corev1::PodSpec& spec) {
  std::set<std::string> all;
  std::set<std::string> served;
  for (const corev1::Volume& volume : spec.volumes()) {
    all.insert(volume.name());
    if (kube::IsPersistent(volume.volumesource())) served.insert(volume.name());
  }
  return Join(served.empty() ? all : served, " ");
}

// In the words and the time of a kubelet, of which 1.36 has them in its log only.
void TellVolumesHang(Planning& p) {
  p.Event(true, "FailedMount",
          StrCat("Unable to attach or mount volumes: unmounted volumes=[",
                 VolumesThatHang(p.pod.spec()),
                 "], unattached volumes=[], failed to process volumes=[]: timed out waiting for "
                 "the condition"),
          nullptr);
}

void TellOverdue(Planning& p) {
  for (const OperationFact& o : p.facts.under_way) {
    // A hook takes as long as it takes, a pull as long as the registry sends; both have limits of their own.
    if (o.overdue || IsHook(o.action) || o.action.kind == Kind::kPull) continue;
    const BootTime due = (o.begun ? o.since : p.facts.boot) + p.facts.operation_deadline;
    if (p.facts.boot < due) {
      p.WakeAt(due);
      continue;
    }
    p.decision.overdue.push_back(o.action);
    if (o.action.kind == Kind::kEnsureVolumes) {
      TellVolumesHang(p);
      continue;
    }
    p.Event(true, "FailedSync",
            StrCat("error syncing pod: ", ToString(o.action),
                   " takes longer than two minutes; other pods go on"),
            nullptr);
  }
}

}  // namespace

const SpecContainer* ContainerOf(const Planning& p, const Action& action) {
  const auto it = std::ranges::find_if(
      p.containers, [&](const SpecContainer& c) { return c.name() == action.container; });
  return it == p.containers.end() ? nullptr : &*it;
}

void AbsorbEnds(Planning& p) {
  std::erase_if(p.memory.pauses, [&](const Pause& pause) { return pause.until <= p.facts.boot; });
  for (const OperationEnd& end : p.facts.ended) {
    for (const EventNote& note : end.events) p.decision.events.push_back(note);
    if (end.how == OperationEnd::How::kCancelled) continue;
    const bool failed = end.how == OperationEnd::How::kFailed;
    const BootTime again = end.boot + (failed ? PauseAfterFailure(p, end) : kAfterSuccess);
    failed ? FoldFailed(p, end, again) : FoldDone(p, end);
    p.memory.pauses.push_back({end.action, again});
  }
}

void PlanOperations(Planning& p) {
  const std::vector<Action>& wanted = p.decision.actions;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (IsUnderWay(p, wanted[i]) || IsHeldUp(p, i)) continue;
    if (const Pause* pause = PauseOf(p, wanted[i])) {
      p.WakeAt(pause->until);
      continue;
    }
    if (wanted[i].kind == Kind::kStart) TellImage(p, wanted[i]);
    if (wanted[i].kind == Kind::kPull) TellPulling(p, wanted[i]);
    if (wanted[i].kind == Kind::kEnsureVolumes) p.memory.volumes_will_show = ShownByVolumes(p.pod);
    p.decision.begin.push_back(wanted[i]);
  }
  for (const OperationFact& o : p.facts.under_way) {
    if (!MayBeCancelled(o.action) || std::ranges::find(wanted, o.action) != wanted.end()) continue;
    p.decision.cancel.push_back(o.action);
  }
  TellOverdue(p);
  if (!p.decision.begin.empty()) p.WakeAt(p.facts.boot + p.facts.operation_deadline);
}

}  // namespace holdfast::agent
