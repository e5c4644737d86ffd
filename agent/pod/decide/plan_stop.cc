// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "agent/pod/decide/planning.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// Never less between the stop signal and SIGKILL.
constexpr std::chrono::seconds kMinimumGrace{2};

void StopOne(Planning& p, const SpecContainer& c) {
  ContainerMemory& mine = p.Memory(c);
  const int signal = mine.launch ? mine.launch->stop_signal : SIGTERM;
  if (!mine.stop) {
    mine.stop = Stop{};
    p.Event(false, "Killing", StrCat("Stopping container ", c.name()), &c);
  }
  Stop& stop = *mine.stop;
  if (stop.signalled_at.IsZero()) {
    p.Act({Action::Kind::kSignal, c.name(), mine.current->id, mine.current->attempt, signal});
    return;
  }
  if (stop.signalled_boot == BootTime{}) {
    const auto ago = std::max(p.facts.wall - stop.signalled_at, std::chrono::nanoseconds(0));
    stop.signalled_boot = {p.facts.boot.since_boot - ago};
  }
  const BootTime kill_at =
      std::max({p.memory.ending->kill_at, stop.signalled_boot + kMinimumGrace, stop.next_kill});
  if (p.facts.boot >= kill_at) {
    p.Act({Action::Kind::kKill, c.name(), mine.current->id, mine.current->attempt, SIGKILL});
    return;
  }
  p.WakeAt(kill_at);
}

// True when nothing of `role` runs any more.
bool StopAllBut(Planning& p, Role spared) {
  bool all_gone = true;
  for (const SpecContainer& c : p.containers) {
    if (c.role == spared || !p.Memory(c).current) continue;
    StopOne(p, c);
    all_gone = false;
  }
  return all_gone;
}

bool StopSidecars(Planning& p) {
  for (auto c = p.containers.rbegin(); c != p.containers.rend(); ++c) {
    if (c->role != Role::kSidecar || !p.Memory(*c).current) continue;
    StopOne(p, *c);
    return false;
  }
  return true;
}

}  // namespace

void PlanEnding(Planning& p) {
  for (auto& [name, mine] : p.memory.containers) mine.failure.reset();
  p.memory.failure.reset();  // what could not be made is no longer waited for
  if (!StopAllBut(p, Role::kSidecar)) return;
  if (!StopSidecars(p)) return;
  if (p.facts.sandbox_exists) p.Act({Action::Kind::kRemoveSandbox});
  if (p.memory.ending->why == Ending::Why::kDeleted) p.Act({Action::Kind::kCleanUp});
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
