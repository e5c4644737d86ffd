// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/pod_worker.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "agent/kube/times.h"
#include "agent/kube/volume_kinds.h"
#include "agent/pod/decide/decide.h"
#include "agent/pod/decide/memory.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/execute/job_input.h"
#include "agent/pod/execute/pod_observation.h"
#include "agent/pod/operate/hook.h"
#include "agent/pod/operate/log_links.h"
#include "agent/pod/operate/pod_job.h"
#include "agent/pod/operate/pod_metrics.h"
#include "agent/probe/prober.h"
#include "agent/view/pod_view_store.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// A record that could not be written, and what comes after it, is tried again.
constexpr std::chrono::seconds kTurnRetry{10};
constexpr std::chrono::milliseconds kSoon{20};
constexpr std::chrono::seconds kLookAtInputs{2};

bool IsCleanUp(const auto& operation) { return operation.action.kind == Action::Kind::kCleanUp; }

bool IsCleanedUp(const PodFacts& facts) {
  return std::ranges::any_of(facts.ended, [](const auto& end) {
    return IsCleanUp(end) && end.how == OperationEnd::How::kDone;
  });
}

bool AwaitsImage(const PodFacts& facts) {
  return std::ranges::any_of(facts.images | std::views::values, [](const ImageFact& image) {
    return image.state != ImageFact::State::kPresent;
  });
}

void WakeBy(std::optional<BootTime>& wake_at, BootTime at) {
  wake_at = std::min(wake_at.value_or(at), at);
}

}  // namespace

PodWorker::PodWorker(PodServices& services, LanePool& pool, std::shared_ptr<const corev1::Pod> pod,
                     PodMemory memory, std::chrono::seconds operation_deadline,
                     std::function<void()> poke)
    : services_(services),
      operation_deadline_(operation_deadline),
      pod_(std::move(pod)),
      paths_(services.state.Paths(*pod_)),
      memory_(std::move(memory)),
      place_(services.admission, services.metrics, pod_, memory_),
      inputs_(memory_.origin == PodOrigin::kApi ? services.inputs : services.file_inputs),
      operations_(pool, services.clock, std::move(poke)),
      saved_(services.state),
      told_(services) {
  // The earlier they are asked for the sooner it starts.
  if (!HasEndedElsewhere() && memory_.terminal_phase.empty()) inputs_.Acquire(pod_);
}

void PodWorker::EnsureAdmission() { place_.Ensure(memory_); }

void PodWorker::Show(const Wish& wish) {
  const PodFacts facts = Observe(wish);
  told_.Show(*pod_, Decide(facts, PodMemory(memory_)).status, Deletion(wish));
}

// It takes no place and shows what it was: nothing of it is started.
bool PodWorker::HasEndedElsewhere() const { return EndedElsewhere(memory_.origin, *pod_); }

void PodWorker::ShowNew() {
  told_.NoteHeard();
  memory_.start_time = services_.clock.Wall();
  if (HasEndedElsewhere()) return told_.Show(*pod_, pod_->status());
  corev1::PodStatus status;
  status.set_phase("Pending");
  kube::SetTime(memory_.start_time, status.mutable_starttime());
  told_.Show(*pod_, status);
}

PodWorker::Outcome PodWorker::Turn(const Wish& wish) {
  const BootTime begun = services_.clock.Boot();
  const char* const type = wish.deletion_grace                 ? "kill"
                           : std::exchange(first_turn_, false) ? "create"
                           : wish.pod != pod_                  ? "update"
                                                               : "sync";
  Outcome outcome = RunTurn(wish);
  if (services_.metrics != nullptr) {
    services_.metrics->NoteTurn(type, services_.clock.Boot() - begun);
  }
  return outcome;
}

PodWorker::Outcome PodWorker::RunTurn(const Wish& wish) {
  TakeOver(wish.pod);
  place_.Ask(pod_, memory_,
             wish.deletion_grace || memory_.ending || !memory_.terminal_phase.empty());
  const PodFacts facts = Observe(wish);
  if (IsCleanedUp(facts)) {
    inputs_.Release();
    if (services_.prober != nullptr) services_.prober->Forget(pod_);
    return {.gone = true};
  }
  Decision decision = Decide(facts, std::move(memory_));
  memory_ = std::move(decision.memory);
  if (!memory_.terminal_phase.empty()) GiveUpPlace(kPodTerminated);
  if (decision.released) inputs_.Release();
  told_.NotePhase(decision.status.phase());
  told_.Show(*pod_, decision.status, Deletion(wish));
  services_.view.AddEvents(*pod_, decision.events);

  Outcome outcome{.wake_at = decision.wake_at, .awaits_image = AwaitsImage(facts)};
  const std::optional<BootTime> told_at = BetweenRuns(memory_, facts.wall, facts.boot);
  if (told_at) WakeBy(outcome.wake_at, *told_at);
  if (look_again_) WakeBy(outcome.wake_at, services_.clock.Boot() + kSoon);
  if (facts.inputs.pending) WakeBy(outcome.wake_at, services_.clock.Boot() + kLookAtInputs);

  // Nothing is done that could not be remembered. What is being cleaned up has no record to write.
  const bool goes =
      std::ranges::any_of(facts.under_way, [](const auto& o) { return IsCleanUp(o); });
  const bool must_last = MustLast(wish);
  const bool saved = goes || Save(must_last);
  if (!goes && !told_at && (saved || !must_last)) Report(wish, decision);
  if (!saved) {
    outcome.wake_at = services_.clock.Boot() + kTurnRetry;
    // A deletion goes on: it makes room, and a successor sees by itself that nobody wants the pod.
    if (!wish.deletion_grace) return outcome;
  }
  WantProbes(decision.probes);
  Operate(decision);
  return outcome;
}

// A new version of the pod, which the turn goes by; the table sends none that is another pod.
void PodWorker::TakeOver(const std::shared_ptr<const corev1::Pod>& pod) {
  if (pod == pod_) return;
  if (services_.metrics != nullptr) services_.metrics->NoteChange(*pod_, *pod);
  pod_ = pod;
  saved_.PodChanged();
  memory_.active_deadline = {};  // it may be another one
  inputs_.Renew(pod_);
}

PodFacts PodWorker::Observe(const Wish& wish) {
  const auto node = services_.node();
  node_facts_ = NodeFacts{node->node_name, node->host_ips, node->memory_capacity_bytes,
                          services_.max_back_off};
  PodFacts facts;
  facts.pod = place_.allocated().get();
  facts.asked = pod_.get();
  facts.resize = place_.verdict();
  facts.deletion_grace = wish.deletion_grace;
  facts.object_gone = wish.object_gone || wish.gives_way;
  facts.eviction = wish.eviction;
  // Before the runtime is asked: what it shows is never older than an end.
  PodOperations::State operations = operations_.Take();
  facts.under_way = std::move(operations.under_way);
  facts.ended = std::move(operations.ended);
  facts.operation_deadline = operation_deadline_;
  PodObservation observation(services_, paths_, *pod_, memory_, inputs_.get());
  observation.LookAtRuntime(facts);
  look_again_ = observation.look_again();
  if (!std::exchange(links_checked_, true)) EnsureLogLinks(facts.containers);
  if (inputs_.held() && !facts.object_gone) observation.LookAtInputs(facts);
  observation.LookAtImages(facts);
  if (services_.prober != nullptr && !probes_.empty()) {
    facts.probes = services_.prober->FactsOf(PodUid(pod_->metadata().uid()));
  }
  facts.node = &node_facts_;
  facts.wall = services_.clock.Wall();
  facts.boot = services_.clock.Boot();
  return facts;
}

// Once, for what a former agent started and may not have come to link.
void PodWorker::EnsureLogLinks(const std::vector<ContainerFact>& containers) {
  for (const ContainerFact& c : containers) {
    const auto linked = LinkLog(services_.instance.container_log_dir, paths_, c.observed.name,
                                c.observed.attempt, c.observed.id);
    if (!linked) services_.log(StrCat(linked.error().message(), ", ignoring"));
  }
}

const Ending* PodWorker::Deletion(const Wish& wish) const {
  return wish.deletion_grace && memory_.ending ? &*memory_.ending : nullptr;
}

// An end that others hear of: whatever happens to this machine, the pod never runs again. What the
// server says itself it knows without us.
bool PodWorker::MustLast(const Wish& wish) const {
  return memory_.origin == PodOrigin::kApi && services_.reporter != nullptr &&
         !memory_.terminal_phase.empty() && !wish.object_gone && !HasEndedElsewhere();
}

bool PodWorker::Save(bool must_last) {
  if (const auto saved = saved_.Save(*pod_, memory_, must_last); !saved) {
    told_.TellUnsaved(*pod_, saved.error().message());
    return false;
  }
  told_.NoteSaved();
  const bool refused = memory_.admission && !memory_.admission->admitted();
  if (!refused && !HasEndedElsewhere()) told_.TellLeftOut(*pod_, memory_.origin);
  return true;
}

void PodWorker::Report(const Wish& wish, const Decision& decision) {
  const bool has_object = memory_.origin != PodOrigin::kApi || !wish.object_gone;
  if (has_object) told_.Report(pod_, decision.status, decision.released, memory_.origin);
}

// The prober goes on with what it has; it hears of changes only.
void PodWorker::WantProbes(const std::vector<WantedProbe>& probes) {
  if (services_.prober == nullptr || probes == probes_) return;
  probes_ = probes;
  services_.prober->Want(pod_, probes);
}

void PodWorker::Operate(const Decision& decision) {
  for (const Action& action : decision.overdue) {
    services_.log(StrCat("pod ", PodLabel(*pod_), ": ", ToString(action),
                         " takes longer than two minutes; other pods go on"));
    if (!operations_.GiveBack(action)) services_.log("too many stuck operations; others wait");
  }
  for (const Action& action : decision.cancel) operations_.Cancel(action);
  // This thread carries out itself what it asked for first: what the rest waits for longest.
  for (const Action& action : std::views::reverse(decision.begin)) Begin(action);
}

void PodWorker::Begin(const Action& action) {
  if (IsHook(action.kind) && services_.prober != nullptr) return BeginHookOf(action);
  PodJobInput input = JobInputOf(action, place_.allocated(), memory_);
  input.inputs = inputs_.get();
  if (action.kind == Action::Kind::kPull) {
    input.asked = services_.clock.Boot();
    // A try after one that failed: the secrets may be others by now.
    if (memory_.containers[action.container].image_back_off.delay.count() != 0) inputs_.Refresh();
  }
  operations_.Begin(
      action,
      [&services = services_, input = std::move(input)](const std::atomic<bool>& cancelled) {
        return MakePodJob(services, input, cancelled)->Run();
      },
      kube::HasPersistent(pod_->spec()));
}

void PodWorker::BeginHookOf(const Action& action) {
  const auto& host_ips = node_facts_.host_ips;
  HookInput input = HookInputOf(action, pod_, memory_, host_ips.empty() ? "" : host_ips.front(),
                                services_.clock.Wall());
  if (services_.metrics != nullptr) {
    input.sleep_given_up = [metrics = services_.metrics] { metrics->NoteSleepGivenUp(); };
  }
  operations_.BeginElsewhere(action, [&](PodOperations::Ended ended) {
    return BeginHook(services_.prober->checks(), input, std::move(ended));
  });
}

}  // namespace holdfast::agent
