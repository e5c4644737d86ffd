// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "agent/kube/network_not_ready.h"
#include "agent/kube/volume_kinds.h"
#include "agent/pod/decide/back_off.h"
#include "agent/pod/decide/planning.h"
#include "agent/pod/decide/shown_volumes.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kLookAtNetwork{1};

// Whatever else the pod waits for: they go on. While one does nothing starts.
void PlanPostStarts(Planning& p) {
  for (const SpecContainer& c : p.containers) {
    const ContainerMemory& mine = p.Memory(c);
    if (!mine.current || mine.stop || Runs(c, mine)) continue;
    p.Act({Action::Kind::kPostStart, c.name(), mine.current->id, mine.current->attempt});
  }
}

// What a probe had killed counts from the end before it, as with a kubelet, which starts it again
// in the step in which it killed it.
const Finished& BackOffFrom(const ContainerMemory& mine) {
  return mine.last->unhealthy && mine.before_last ? *mine.before_last : *mine.last;
}

// True while an earlier failure to create is still to be waited out.
bool WaitsForRetry(Planning& p, const SpecContainer& c) {
  ContainerMemory& mine = p.Memory(c);
  if (!mine.failure || IsImageReason(mine.failure->reason)) return false;
  if (p.facts.boot < mine.failure->retry_at) {
    p.WakeAt(mine.failure->retry_at);
    p.waiting[c.name()] = *mine.failure;
    return true;
  }
  return false;
}

bool WaitsForBackOff(Planning& p, const SpecContainer& c) {
  ContainerMemory& mine = p.Memory(c);
  if (!mine.last || (c.role == Role::kInit && mine.last->exit_code == 0)) return false;
  BackOff& back_off = mine.restart_back_off;
  const BootTime at = RestartAllowedAt(back_off, BackOffFrom(mine), p.facts.wall, p.facts.boot);
  if (p.facts.boot >= at) return false;
  p.WakeAt(at);
  if (back_off.announced_attempt != mine.attempts) {
    back_off.announced_attempt = mine.attempts;
    p.Event(true, "BackOff",
            StrCat("Back-off restarting failed container ", c.name(), " in pod ", PodLabel(p.pod)),
            &c);
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(back_off.delay).count();
  const std::string span =
      seconds < 60 ? StrCat(seconds, "s") : StrCat(seconds / 60, "m", seconds % 60, "s");
  p.waiting[c.name()] = Failure{"CrashLoopBackOff",
                                StrCat("back-off ", span, " restarting failed container=", c.name(),
                                       " pod=", PodLabel(p.pod)),
                                at};
  return true;
}

int StopSignal(const SpecContainer& c, const ImageFact& image) {
  const int wished = SignalNumber(c.spec->lifecycle().stopsignal());
  if (wished != 0) return wished;
  const int image_wish = SignalNumber(image.stop_signal);
  return image_wish != 0 ? image_wish : SIGTERM;
}

Action StartOf(const SpecContainer& c, const ContainerMemory& mine) {
  Action start{Action::Kind::kStart, c.name()};
  start.attempt = mine.attempts;
  return start;
}

std::map<std::string, std::string> ImagesOfVolumes(const Planning& p, const SpecContainer& c) {
  std::map<std::string, std::string> images;
  for (const corev1::Volume* volume : kube::MountedImages(p.pod.spec(), *c.spec)) {
    const ImageFact& image = p.facts.images.at(volume->volumesource().image().reference());
    images[volume->name()] = image.digest.empty() ? image.id : image.digest;
  }
  return images;
}

void PlanStart(Planning& p, const SpecContainer& c) {
  ContainerMemory& mine = p.Memory(c);
  const ImageFact& image = p.facts.images.at(c.spec->image());
  mine.failure.reset();
  mine.launch = Launch{mine.attempts,
                       image.name,
                       image.id,
                       StopSignal(c, image),
                       image.digest,
                       c.spec->image(),
                       EffectiveAmounts(p.pod, *c.spec)};
  mine.launch->volume_images = ImagesOfVolumes(p, c);
  p.Act(StartOf(c, mine));
}

// Starts the container unless it runs, has ended for good or has to wait.
void Consider(Planning& p, const SpecContainer& c) {
  ContainerMemory& mine = p.Memory(c);
  if (mine.current) return;
  // It keeps what was decided for it, whatever the image's name means by now.
  if (IsUnderWay(p, StartOf(c, mine))) return p.Act(StartOf(c, mine));
  if (mine.last && c.role == Role::kEphemeral) return mine.failure.reset();
  if (mine.last && c.role != Role::kInit && !mine.again &&
      !RestartsAfter(p.pod, c, mine.last->exit_code)) {
    mine.failure.reset();
    return;
  }
  if (WaitsForRetry(p, c) || WaitsForBackOff(p, c)) return;
  if (ImagesAreThere(p, c) && !p.facts.inputs.pending) PlanStart(p, c);
}

// One by one in order; true when the main containers may start. A sidecar that started once no
// longer holds anything up, it is only kept running.
bool ConsiderInit(Planning& p) {
  for (const SpecContainer& c : p.containers) {
    if (c.role == Role::kMain) break;
    if (c.role == Role::kSidecar) Consider(p, c);
    if (p.Memory(c).init_done) continue;
    if (c.role == Role::kInit) Consider(p, c);
    return false;
  }
  return true;
}

void KeepSidecars(Planning& p) {
  for (const SpecContainer& c : p.containers) {
    if (c.role == Role::kSidecar) Consider(p, c);
  }
}

// As a kubelet does before it makes a sandbox. Told once.
bool WaitsForNetwork(Planning& p) {
  constexpr char kReason[] = "NetworkNotReady";
  const bool waited = p.memory.failure && p.memory.failure->reason == kReason;
  if (p.facts.network_problem.empty() || p.facts.sandbox_ready || p.pod.spec().hostnetwork()) {
    if (waited) p.memory.failure.reset();
    return false;
  }
  const std::string text =
      StrCat("network is not ready: ", kube::NetworkNotReady(p.facts.network_problem));
  if (!waited) p.Event(true, kReason, text, nullptr);
  p.memory.failure = Failure{kReason, text, p.facts.boot + kLookAtNetwork};
  p.WakeAt(p.memory.failure->retry_at);
  return true;
}

// Beside the init containers: they are there to see why these do not end.
void StartEphemeral(Planning& p) {
  for (const SpecContainer& c : p.containers) {
    if (c.role == Role::kEphemeral) Consider(p, c);
  }
}

// Of a pod that runs, too: they follow what they were made from.
bool VolumesAreBehind(const Planning& p) {
  if (!p.facts.sandbox_ready || p.facts.inputs.pending) return false;
  return p.facts.inputs.version > p.memory.volumes_version ||
         ShownByVolumes(p.pod) != p.memory.volumes_show;
}

// What could not be mounted is tried again as soon as what it is made from has changed.
void ForgetMountFailure(Planning& p) {
  const auto& failure = p.memory.failure;
  if (!failure || failure->reason != "FailedMount") return;
  if (p.facts.inputs.version <= failure->inputs_version) return;
  p.memory.failure.reset();
  p.memory.volume_failures = 0;
  std::erase_if(p.memory.pauses, [](const Pause& pause) {
    return pause.action.kind == Action::Kind::kEnsureVolumes;
  });
}

}  // namespace

void PlanStarts(Planning& p) {
  PlanPostStarts(p);
  // Once all of it has ended, the pod begins anew as a whole.
  if (p.facts.sandbox_dying && AnythingRuns(p)) return;
  if (WaitsForNetwork(p)) return;
  ForgetMountFailure(p);
  if (p.memory.failure && p.facts.boot < p.memory.failure->retry_at) {
    p.WakeAt(p.memory.failure->retry_at);
    return;
  }
  p.memory.failure.reset();
  const size_t first = p.decision.actions.size();
  StartEphemeral(p);
  if (p.memory.initialized) {
    KeepSidecars(p);
  } else {
    p.memory.initialized = ConsiderInit(p);
  }
  if (p.memory.initialized) {
    for (const SpecContainer& c : p.containers) {
      if (c.role == Role::kMain) Consider(p, c);
    }
  }
  // What the starts stand on comes before them.
  std::vector<Action> before;
  const bool starts = p.decision.actions.size() > first;
  const bool can_be_made = !p.facts.inputs.pending;  // an image may be pulled meanwhile
  if ((starts && can_be_made && !p.memory.volumes_made) || VolumesAreBehind(p)) {
    before.push_back({Action::Kind::kEnsureVolumes});
  }
  if (!p.facts.sandbox_ready && !p.facts.inputs.sandbox_pending) {
    before.push_back({Action::Kind::kEnsureSandbox});
  }
  p.decision.actions.insert(p.decision.actions.begin() + static_cast<std::ptrdiff_t>(first),
                            before.begin(), before.end());
}

}  // namespace holdfast::agent
