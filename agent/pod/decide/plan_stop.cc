// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "agent/pod/decide/planning.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// Never less between the stop signal and SIGKILL.
constexpr std::chrono::seconds kMinimumGrace{2};

// A signal that cannot be sent, or hangs, does not keep a container alive.
void KillUnsignalled(Planning& p, const SpecContainer& c, BootTime kill_at) {
  const Current& current = *p.Memory(c).current;
  Stop& stop = *p.Memory(c).stop;
  if (stop.since == BootTime{}) stop.since = p.facts.boot;
  const BootTime due = std::max(std::max(kill_at, stop.since) + kMinimumGrace, stop.next_kill);
  if (p.facts.boot < due) return p.WakeAt(due);
  p.Act({Action::Kind::kKill, c.name(), current.id, current.attempt, SIGKILL});
}

// By the wall clock the first time this process looks at it.
BootTime SinceBoot(const Planning& p, WallTime then) {
  return {p.facts.boot.since_boot - std::max(p.facts.wall - then, std::chrono::nanoseconds(0))};
}

// The hook is wanted until it ends or its time, the grace period, does. A killed agent's hook is
// carried out again, with what is left of that time.
bool WaitsForPreStop(Planning& p, const SpecContainer& c, const StopOrder& order,
                     BootTime kill_at) {
  ContainerMemory& mine = p.Memory(c);
  Stop& stop = *mine.stop;
  if (stop.pre_stop_over || !c.spec->lifecycle().has_prestop()) return false;
  if (order.grace == std::chrono::seconds(0) || p.facts.boot >= kill_at) {
    stop.pre_stop_over = true;
    return false;
  }
  p.Act({Action::Kind::kPreStop, c.name(), mine.current->id, mine.current->attempt});
  p.WakeAt(kill_at);
  return true;
}

void Signal(Planning& p, const SpecContainer& c, const StopOrder& order, BootTime kill_at) {
  const ContainerMemory& mine = p.Memory(c);
  if (WaitsForPreStop(p, c, order, kill_at)) return;
  if (!order.turn && p.facts.boot < kill_at) return p.WakeAt(kill_at);
  const int signal = mine.launch ? mine.launch->stop_signal : SIGTERM;
  p.Act({Action::Kind::kSignal, c.name(), mine.current->id, mine.current->attempt, signal});
  KillUnsignalled(p, c, kill_at);
}

void StopForEnding(Planning& p, const SpecContainer& c, bool turn) {
  StopOne(p, c,
          {.why = StrCat("Stopping container ", c.name()),
           .grace = p.memory.ending->grace,
           .kill_at = p.memory.ending->kill_at,
           .turn = turn});
}

bool RunsAnotherImage(const SpecContainer& c, const ContainerMemory& mine) {
  return mine.current && mine.launch && mine.launch->attempt == mine.current->attempt &&
         !mine.launch->reference.empty() && mine.launch->reference != c.spec->image();
}

// For an image or amounts: not for what it had become.
bool StopsToBeChanged(const ContainerMemory& mine) {
  return mine.current && mine.stop && mine.again && !mine.current->unhealthy;
}

// All of them begin to stop at once; a sidecar's signal waits for what stands on it: the main
// containers, and the sidecars after it. True when nothing runs any more.
bool StopAll(Planning& p) {
  bool all_gone = true;
  for (const SpecContainer& c : p.containers) {
    if (c.role == Role::kSidecar || !p.Memory(c).current) continue;
    StopForEnding(p, c, true);
    all_gone = false;
  }
  for (auto c = p.containers.rbegin(); c != p.containers.rend(); ++c) {
    if (c->role != Role::kSidecar || !p.Memory(*c).current) continue;
    StopForEnding(p, *c, all_gone);
    all_gone = false;
  }
  return all_gone;
}

}  // namespace

void StopOne(Planning& p, const SpecContainer& c, const StopOrder& order) {
  ContainerMemory& mine = p.Memory(c);
  if (!mine.stop) {
    mine.stop = Stop{.begun = p.facts.wall, .begun_boot = p.facts.boot};
    p.Event(false, "Killing", order.why, &c);
  }
  Stop& stop = *mine.stop;
  if (stop.begun_boot == BootTime{}) stop.begun_boot = SinceBoot(p, stop.begun);
  const BootTime kill_at = order.kill_at.value_or(stop.begun_boot + order.grace);
  if (stop.signalled_at.IsZero()) return Signal(p, c, order, kill_at);
  if (stop.signalled_boot == BootTime{}) stop.signalled_boot = SinceBoot(p, stop.signalled_at);
  const BootTime due = std::max({kill_at, stop.signalled_boot + kMinimumGrace, stop.next_kill});
  if (p.facts.boot < due) return p.WakeAt(due);
  p.Act({Action::Kind::kKill, c.name(), mine.current->id, mine.current->attempt, SIGKILL});
}

void PlanChangedContainers(Planning& p) {
  for (const SpecContainer& c : p.containers) {
    ContainerMemory& mine = p.Memory(c);
    if (c.role == Role::kInit || c.role == Role::kEphemeral) continue;
    // What has begun is carried out, though its reason may be taken back: the container has had its signal.
    if (!RunsAnotherImage(c, mine) && !StopsToBeChanged(mine)) continue;
    mine.again = true;  // whatever its policy says
    mine.restart_back_off = {};
    StopOne(p, c,
            {.why = StrCat("Container ", c.name(), " definition changed, will be restarted"),
             .grace = GracePeriod(p.pod)});
  }
}

void PlanEnding(Planning& p) {
  for (auto& [name, mine] : p.memory.containers) mine.failure.reset();
  p.memory.failure.reset();  // what could not be made is no longer waited for
  if (!StopAll(p)) return;
  if (p.facts.sandbox_exists) p.Act({Action::Kind::kRemoveSandbox});
  const bool deleted = p.memory.ending->why == Ending::Why::kDeleted;
  if (deleted && (!IsReported(p) || p.facts.object_gone)) {
    p.Act({Action::Kind::kCleanUp});
  } else if (IsReported(p) && !p.memory.released) {
    p.Act({Action::Kind::kReleaseVolumes});
  }
}

void PlanRemovals(Planning& p) {
  for (const ContainerFact& fact : p.facts.containers) {
    const ObservedContainer& seen = fact.observed;
    const auto it = p.memory.containers.find(seen.name);
    const ContainerMemory* mine = it == p.memory.containers.end() ? nullptr : &it->second;
    if (mine != nullptr && mine->current && mine->current->id == seen.id) continue;
    if (!seen.exit) p.Act({Action::Kind::kKill, seen.name, seen.id, seen.attempt, SIGKILL});
    p.Act({Action::Kind::kRemove, seen.name, seen.id, seen.attempt});
  }
}

}  // namespace holdfast::agent
