// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/decide/decide.h"

#include <algorithm>
#include <utility>

#include "agent/kube/pod_status.h"
#include "agent/pod/decide/memory.h"
#include "agent/pod/decide/planning.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr char kDeadlineMessage[] = "Pod was active on the node longer than the specified deadline";

void BeginEnding(Planning& p, Ending::Why why, std::chrono::seconds grace) {
  p.memory.ending = Ending{why, p.facts.wall, grace, false, p.facts.boot + grace};
}

// When SIGKILL is due, from the wall clock the first time this process looks.
void DeriveKillTime(Planning& p) {
  Ending& ending = *p.memory.ending;
  if (ending.kill_at != BootTime{}) return;
  const std::chrono::nanoseconds grace = ending.grace;
  const auto left =
      std::clamp(grace - (p.facts.wall - ending.since), std::chrono::nanoseconds(0), grace);
  ending.kill_at = p.facts.boot + left;
}

// A deletion starts the ending, or shortens one that is under way; it never makes it longer.
void NoteDeletion(Planning& p) {
  const std::chrono::seconds grace = *p.facts.deletion_grace;
  if (!p.memory.ending) {
    BeginEnding(p, Ending::Why::kDeleted, grace);
    return;
  }
  Ending& ending = *p.memory.ending;
  DeriveKillTime(p);
  ending.why = Ending::Why::kDeleted;
  if (grace < ending.grace) {
    ending.kill_at = std::min(ending.kill_at, p.facts.boot + grace);
    ending.since = p.facts.wall;
    ending.grace = grace;
  }
}

// What somebody else says of the pod's end stands: it is stopped, and keeps that phase.
void NoteEndElsewhere(Planning& p) {
  if (EndedElsewhere(p)) BeginEnding(p, Ending::Why::kCompleted, GracePeriod(p.pod));
}

// The node does not take it: it ends without ever having begun, and is not tried again.
void NoteRejection(Planning& p) {
  const auto& admission = p.memory.admission;
  if (!admission || admission->admitted()) return;
  BeginEnding(p, Ending::Why::kRejected, std::chrono::seconds(0));
  p.memory.terminal_reason = admission->reason;
  p.memory.terminal_message = StrCat("Pod was rejected: ", admission->message);
  p.Event(true, admission->reason, admission->message, nullptr);
}

void NoteEviction(Planning& p) {
  if (!p.facts.eviction) return;
  const Eviction& eviction = *p.facts.eviction;
  BeginEnding(p, Ending::Why::kEvicted, eviction.grace);
  p.memory.terminal_reason = eviction.reason;
  p.memory.terminal_message = eviction.why;
  p.memory.disrupted = eviction.disruption;
  p.Event(true, eviction.reason, eviction.why, nullptr);
  p.decision.events.back().annotations = eviction.annotations;
}

// activeDeadlineSeconds counts from status.startTime on the wall clock, read once per process.
void NoteActiveDeadline(Planning& p) {
  if (!p.pod.spec().has_activedeadlineseconds()) return;
  const std::chrono::nanoseconds limit = std::chrono::seconds(p.pod.spec().activedeadlineseconds());
  if (p.memory.active_deadline == BootTime{}) {
    const auto left = std::clamp(limit - (p.facts.wall - p.memory.start_time),
                                 std::chrono::nanoseconds(0), limit);
    p.memory.active_deadline = p.facts.boot + left;
  }
  if (p.facts.boot < p.memory.active_deadline) {
    p.WakeAt(p.memory.active_deadline);
    return;
  }
  BeginEnding(p, Ending::Why::kDeadline, GracePeriod(p.pod));
  p.memory.terminal_reason = "DeadlineExceeded";
  p.memory.terminal_message = kDeadlineMessage;
  p.Event(false, "DeadlineExceeded", kDeadlineMessage, nullptr);
}

// All main containers ended for good, or an init container that is not tried again failed.
void NoteCompletion(Planning& p) {
  const auto ended = [&](const SpecContainer& c) {
    const ContainerMemory& mine = p.Memory(c);
    return !mine.current && mine.last && !mine.again &&
           !RestartsAfter(p.pod, c, mine.last->exit_code);
  };
  bool all_main = true;
  for (const SpecContainer& c : p.containers) {
    if (c.role == Role::kMain && !ended(c)) all_main = false;
    if (c.role == Role::kInit && !p.memory.initialized && ended(c) && p.Memory(c).last->exit_code) {
      BeginEnding(p, Ending::Why::kCompleted, GracePeriod(p.pod));
      return;
    }
  }
  if (all_main) BeginEnding(p, Ending::Why::kCompleted, GracePeriod(p.pod));
}

// Everything the init containers did is gone with the sandbox: they run again.
void NoteLostSandbox(Planning& p) {
  if (!p.memory.sandbox_made || p.facts.sandbox_ready || AnythingRuns(p)) return;
  p.memory.sandbox_made = false;
  p.memory.initialized = false;
  for (auto& [name, mine] : p.memory.containers) mine.init_done = false;
  p.Event(false, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.",
          nullptr);
}

// As long again as half the grace period, but at least 10 s from its begin, is for the kernel.
void NoteOverdue(Planning& p) {
  Ending& ending = *p.memory.ending;
  if (ending.overdue || !AnythingRuns(p)) return;
  const BootTime overdue_at =
      ending.kill_at + std::max(std::chrono::seconds(10) - ending.grace, ending.grace / 2);
  if (p.facts.boot < overdue_at) {
    p.WakeAt(overdue_at);
    return;
  }
  ending.overdue = true;
  p.Event(true, "ExceededGracePeriod",
          "Container runtime did not kill the pod within specified grace period.", nullptr);
}

// Nothing of it runs, is mounted or has an address any more, and no operation could change that.
bool IsReleased(const Planning& p) {
  return IsReported(p) && p.memory.released && !p.memory.terminal_phase.empty() &&
         !p.facts.sandbox_exists && p.facts.under_way.empty() && p.decision.actions.empty();
}

void NoteTerminalPhase(Planning& p) {
  if (!p.memory.terminal_phase.empty() || !p.memory.ending || AnythingRuns(p)) return;
  p.memory.terminal_phase = ComputePhase(p);
  if (!EndedElsewhere(p)) return;
  p.memory.terminal_reason = p.pod.status().reason();
  p.memory.terminal_message = p.pod.status().message();
}

}  // namespace

bool IsReported(const Planning& p) { return p.memory.origin == PodOrigin::kApi; }

bool EndedElsewhere(PodOrigin origin, const corev1::Pod& pod) {
  return origin == PodOrigin::kApi && kube::IsTerminalPhase(pod.status().phase());
}

bool EndedElsewhere(const Planning& p) { return EndedElsewhere(p.memory.origin, p.pod); }

bool NeverRan(const PodMemory& memory) {
  return std::ranges::all_of(memory.containers, [](const auto& entry) {
    return !entry.second.launch && !entry.second.current && !entry.second.last;
  });
}

bool AnythingRuns(const Planning& p) {
  const auto runs = [](const auto& entry) { return entry.second.current.has_value(); };
  const auto starts = [](const OperationFact& o) { return o.action.kind == Action::Kind::kStart; };
  return std::ranges::any_of(p.memory.containers, runs) ||
         std::ranges::any_of(p.facts.under_way, starts);
}

bool IsUnderWay(const Planning& p, const Action& action) {
  return std::ranges::any_of(p.facts.under_way,
                             [&](const OperationFact& o) { return o.action == action; });
}

void Planning::Event(bool warning, std::string reason, std::string message,
                     const SpecContainer* c) {
  decision.events.push_back(EventNote{
      warning, std::move(reason), std::move(message), c != nullptr ? c->name() : std::string(),
      c != nullptr && c->in_init_list(), c != nullptr && c->role == Role::kEphemeral});
}

std::string ToString(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kEnsureVolumes:
      return "ensure volumes";
    case Action::Kind::kEnsureSandbox:
      return "ensure sandbox";
    case Action::Kind::kResize:
      return StrCat("resize #", action.attempt);
    case Action::Kind::kPull:
      return StrCat("pull ", action.container, "#", action.attempt, " ", action.image);
    case Action::Kind::kStart:
      return StrCat("start ", action.container, "#", action.attempt);
    case Action::Kind::kPostStart:
      return StrCat("post-start ", action.container, "#", action.attempt);
    case Action::Kind::kPreStop:
      return StrCat("pre-stop ", action.container, "#", action.attempt);
    case Action::Kind::kSignal:
      return StrCat("signal ", action.container, " ", action.signal);
    case Action::Kind::kKill:
      return StrCat("kill ", action.container);
    case Action::Kind::kRemove:
      return StrCat("remove ", action.container, "#", action.attempt);
    case Action::Kind::kRemoveSandbox:
      return "remove sandbox";
    case Action::Kind::kReleaseVolumes:
      return "release volumes";
    case Action::Kind::kCleanUp:
      return "clean up";
  }
  return "?";
}

bool NeedsImage(const PodMemory& memory, const std::string& container) {
  const auto it = memory.containers.find(container);
  return !memory.ending && (it == memory.containers.end() || !it->second.current);
}

Decision Decide(const PodFacts& facts, PodMemory memory) {
  Decision decision;
  decision.memory = std::move(memory);
  Planning p{facts, *facts.pod, decision.memory, decision, ContainersOf(*facts.pod), {}};
  if (p.memory.start_time.IsZero()) p.memory.start_time = facts.wall;

  // 1. What happened: ends of operations, exits, losses, adoption, what the node has agreed to.
  AbsorbEnds(p);
  Absorb(facts, p.memory);
  NoteAllocation(p);
  FoldProbes(p);
  NoteStartedSidecars(p);
  // 2. Why the pod may have to end.
  if (facts.deletion_grace) NoteDeletion(p);
  if (!p.memory.ending) NoteEndElsewhere(p);
  if (!p.memory.ending) NoteRejection(p);
  if (!p.memory.ending) NoteEviction(p);
  if (!p.memory.ending) NoteActiveDeadline(p);
  if (!p.memory.ending && p.memory.restarting_all && !AnythingRuns(p)) FinishRestartAll(p);
  if (!p.memory.ending && !p.memory.restarting_all) NoteCompletion(p);
  if (!p.memory.ending) NoteLostSandbox(p);
  // 3. What to do about it.
  PlanRemovals(p);
  if (p.memory.ending) {
    DeriveKillTime(p);
    PlanEnding(p);
    NoteOverdue(p);
    NoteTerminalPhase(p);
  } else if (p.memory.restarting_all) {
    PlanRestartAll(p);
  } else {
    PlanChangedContainers(p);
    PlanUnhealthy(p);
    NoteResizeProgress(p);
    // What starts has room by then; one that fails holds up no start.
    const bool fails = p.memory.resize_in_progress && !p.memory.resize_in_progress->reason.empty();
    if (!fails) PlanResize(p);
    PlanStarts(p);
    if (fails) PlanResize(p);
  }
  PlanOperations(p);
  // 4. What to show.
  decision.status = ComputeStatus(p);
  WantProbes(p);
  decision.released = IsReleased(p);
  return decision;
}

std::optional<BootTime> BetweenRuns(const PodMemory& memory, WallTime wall, BootTime boot) {
  constexpr std::chrono::seconds kLongest{1};
  if (memory.ending || !memory.terminal_phase.empty()) return std::nullopt;
  std::optional<BootTime> until;
  for (const auto& [name, mine] : memory.containers) {
    if (!mine.again || mine.current || !mine.last || mine.failure) continue;
    const auto ago = wall - mine.last->finished_at;
    if (mine.last->reason == kRestartingAll || ago < ago.zero() || ago >= kLongest) continue;
    const BootTime at = boot + (kLongest - ago);
    until = until ? std::min(*until, at) : at;
  }
  return until;
}

}  // namespace holdfast::agent
