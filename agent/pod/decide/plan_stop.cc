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

// By the signal first, by SIGKILL at `kill_at`; without it, when the pod's grace period is over.
void StopOne(Planning& p, const SpecContainer& c, const std::string& why,
             std::optional<BootTime> kill_at) {
  ContainerMemory& mine = p.Memory(c);
  const int signal = mine.launch ? mine.launch->stop_signal : SIGTERM;
  if (!mine.stop) {
    mine.stop = Stop{};
    p.Event(false, "Killing", why, &c);
  }
  Stop& stop = *mine.stop;
  if (stop.signalled_at.IsZero()) {
    p.Act({Action::Kind::kSignal, c.name(), mine.current->id, mine.current->attempt, signal});
    if (kill_at) KillUnsignalled(p, c, *kill_at);
    return;
  }
  if (stop.signalled_boot == BootTime{}) {
    const auto ago = std::max(p.facts.wall - stop.signalled_at, std::chrono::nanoseconds(0));
    stop.signalled_boot = {p.facts.boot.since_boot - ago};
  }
  const BootTime due = std::max({kill_at.value_or(stop.signalled_boot + GracePeriod(p.pod)),
                                 stop.signalled_boot + kMinimumGrace, stop.next_kill});
  if (p.facts.boot >= due) {
    p.Act({Action::Kind::kKill, c.name(), mine.current->id, mine.current->attempt, SIGKILL});
    return;
  }
  p.WakeAt(due);
}

void StopForEnding(Planning& p, const SpecContainer& c) {
  StopOne(p, c, StrCat("Stopping container ", c.name()), p.memory.ending->kill_at);
}

bool RunsAnotherImage(const SpecContainer& c, const ContainerMemory& mine) {
  return mine.current && mine.launch && mine.launch->attempt == mine.current->attempt &&
         !mine.launch->reference.empty() && mine.launch->reference != c.spec->image();
}

// True when nothing of `role` runs any more.
bool StopAllBut(Planning& p, Role spared) {
  bool all_gone = true;
  for (const SpecContainer& c : p.containers) {
    if (c.role == spared || !p.Memory(c).current) continue;
    StopForEnding(p, c);
    all_gone = false;
  }
  return all_gone;
}

bool StopSidecars(Planning& p) {
  for (auto c = p.containers.rbegin(); c != p.containers.rend(); ++c) {
    if (c->role != Role::kSidecar || !p.Memory(*c).current) continue;
    StopForEnding(p, *c);
    return false;
  }
  return true;
}

}  // namespace

void PlanImageChanges(Planning& p) {
  for (const SpecContainer& c : p.containers) {
    ContainerMemory& mine = p.Memory(c);
    if (c.role == Role::kInit || c.role == Role::kEphemeral || !RunsAnotherImage(c, mine)) continue;
    mine.again = true;  // whatever its policy says
    mine.restart_back_off = {};
    StopOne(p, c, StrCat("Container ", c.name(), " definition changed, will be restarted"),
            std::nullopt);
  }
}

void PlanEnding(Planning& p) {
  for (auto& [name, mine] : p.memory.containers) mine.failure.reset();
  p.memory.failure.reset();  // what could not be made is no longer waited for
  if (!StopAllBut(p, Role::kSidecar)) return;
  if (!StopSidecars(p)) return;
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
