// SPDX-License-Identifier: Apache-2.0
// RestartAllContainers: one container's end takes all others with it; sandbox, addresses and
// volumes stay.
#include <utility>

#include "agent/pod/decide/planning.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {

void PlanRestartAll(Planning& p) {
  for (auto c = p.containers.rbegin(); c != p.containers.rend(); ++c) {
    ContainerMemory& mine = p.Memory(*c);
    if (!mine.current) continue;
    if (!mine.stop) {
      mine.stop = Stop{};
      p.Event(false, "Killing", StrCat("Stopping container ", c->name()), &*c);
    }
    if (p.facts.boot < mine.stop->next_kill) {
      p.WakeAt(mine.stop->next_kill);
      continue;
    }
    p.Act({Action::Kind::kKill, c->name(), mine.current->id, mine.current->attempt, SIGKILL});
  }
}

void FinishRestartAll(Planning& p) {
  p.memory.restarting_all = false;
  p.memory.initialized = false;
  for (const SpecContainer& c : p.containers) {
    ContainerMemory& mine = p.Memory(c);
    mine.init_done = false;
    mine.failure.reset();
    if (!mine.last || c.role == Role::kEphemeral) continue;
    mine.again = true;
    // How it ended does not count any more, as with a kubelet, which has forgotten it.
    mine.last->exit_code = 137;
    mine.last->signal = 0;
    mine.last->reason = kRestartingAll;
    mine.last->message = kRestartingAllMessage;
  }
}

}  // namespace holdfast::agent
