// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/pod_worker.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "agent/kube/containers_of.h"
#include "agent/kube/times.h"
#include "agent/kube/volume_kinds.h"
#include "agent/pod/admit/left_out.h"
#include "agent/pod/admit/node_admission.h"
#include "agent/pod/decide/decide.h"
#include "agent/pod/decide/memory.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/execute/pod_observation.h"
#include "agent/pod/operate/hook.h"
#include "agent/pod/operate/pod_job.h"
#include "agent/pod/operate/pod_metrics.h"
#include "agent/probe/prober.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

// A record that could not be written, and what comes after it, is tried again.
constexpr std::chrono::seconds kRetry{10};
constexpr std::chrono::milliseconds kLookAgain{20};
constexpr std::chrono::seconds kLookAtInputs{2};

using google::protobuf::util::MessageDifferencer;

corev1::Pod Shown(const corev1::Pod& pod, const corev1::PodStatus& status) {
  corev1::Pod shown = pod;
  *shown.mutable_status() = status;
  return shown;
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
      operations_(pool, services.clock, std::move(poke)),
      saved_(services.state) {
  TakeAllocated();
  AcquireInputs();  // the earlier they are asked for the sooner it starts
  // Its place is taken, whatever the node has by now.
  const bool leaving = memory_.ending && memory_.ending->why == Ending::Why::kDeleted;
  const bool taken = memory_.admission && memory_.admission->admitted();
  if (services_.admission != nullptr && taken && !leaving && memory_.terminal_phase.empty()) {
    services_.admission->Adopt(*allocated_, memory_.ending.has_value());
  }
}

void PodWorker::TakeAllocated() {
  allocated_ = memory_.allocation ? WithAllocation(pod_, *memory_.allocation) : pod_;
}

// Other amounts than it was given: whether the node has room for them. Until that has it, the pod runs with what it has.
// What it is given is its own before it is remembered: an agent that is killed in between asks again.
void PodWorker::AskForRoom(const Wish& wish) {
  TakeAllocated();
  verdict_.reset();
  const bool ends = wish.deletion_grace || memory_.ending || !memory_.terminal_phase.empty();
  const bool waited = memory_.resize_pending.has_value();
  if (ends || !memory_.allocation || (allocated_ == pod_ && !waited)) return;
  const ResizeWish resize{pod_, allocated_, waited ? memory_.resize_pending->since : WallTime{}};
  ResizeVerdict verdict;
  if (services_.admission != nullptr) verdict = services_.admission->Resize(resize);
  HOLDFAST_PAUSE_POINT("agent.pod.resize_judged");
  if (allocated_ == pod_) return;  // it is what it has, again
  CountVerdict(verdict);
  if (verdict.how == ResizeVerdict::How::kGiven) allocated_ = pod_;
  verdict_ = std::move(verdict);
}

// One that is infeasible is given again in each turn.
void PodWorker::CountVerdict(const ResizeVerdict& verdict) const {
  const std::optional<ResizeNote>& note = memory_.resize_pending;
  const bool again = verdict.how == ResizeVerdict::How::kInfeasible && note &&
                     note->reason == kInfeasible &&
                     note->generation == pod_->metadata().generation();
  if (services_.metrics != nullptr && !again) services_.metrics->NoteResizeVerdict(verdict);
}

void PodWorker::EnsureAdmission() {
  if (!memory_.admission) {
    const bool asks = services_.admission != nullptr && !HasEndedElsewhere();
    memory_.admission = asks ? services_.admission->Admit(*pod_) : Admission{};
  }
  if (!memory_.allocation && memory_.admission->admitted()) {
    memory_.allocation = AllocationOf(*pod_);
  }
}

void PodWorker::GiveUpPlace(const char* how) {
  if (services_.admission != nullptr) services_.admission->Release(pod_->metadata().uid(), how);
}

void PodWorker::Show(const Wish& wish) {
  const PodFacts facts = Observe(wish);
  PublishStatus(Decide(facts, PodMemory(memory_)).status, wish.deletion_grace);
}

// It takes no place and shows what it was: nothing of it is started.
bool PodWorker::HasEndedElsewhere() const { return EndedElsewhere(memory_.origin, *pod_); }

void PodWorker::ShowNew() {
  heard_ = services_.clock.Boot();
  memory_.start_time = services_.clock.Wall();
  if (HasEndedElsewhere()) return PublishStatus(pod_->status(), std::nullopt);
  corev1::PodStatus status;
  status.set_phase("Pending");
  kube::SetTime(memory_.start_time, status.mutable_starttime());
  PublishStatus(status, std::nullopt);
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
  AskForRoom(wish);
  const PodFacts facts = Observe(wish);
  const auto is_clean_up = [](const auto& o) { return o.action.kind == Action::Kind::kCleanUp; };
  const auto done = std::ranges::find_if(facts.ended, is_clean_up);
  if (done != facts.ended.end() && done->how == OperationEnd::How::kDone) {
    ReleaseInputs();
    if (services_.prober != nullptr) services_.prober->Forget(pod_);
    return {.gone = true};
  }
  Decision decision = Decide(facts, std::move(memory_));
  memory_ = std::move(decision.memory);
  const std::optional<BootTime> told_at = BetweenRuns(memory_, facts.wall, facts.boot);
  if (!memory_.terminal_phase.empty()) GiveUpPlace(kPodTerminated);
  if (decision.released) ReleaseInputs();
  NoteRunning(decision.status.phase());
  PublishStatus(decision.status, wish.deletion_grace);
  services_.view.AddEvents(*pod_, decision.events);
  Outcome outcome{.wake_at = decision.wake_at};
  if (told_at) outcome.wake_at = std::min(outcome.wake_at.value_or(*told_at), *told_at);
  if (look_again_) {
    const BootTime soon = services_.clock.Boot() + kLookAgain;
    outcome.wake_at = std::min(outcome.wake_at.value_or(soon), soon);
  }
  if (facts.inputs.pending) {
    const BootTime soon = services_.clock.Boot() + kLookAtInputs;
    outcome.wake_at = std::min(outcome.wake_at.value_or(soon), soon);
  }
  outcome.awaits_image = std::ranges::any_of(facts.images | std::views::values, [](const auto& i) {
    return i.state != ImageFact::State::kPresent;
  });
  // Nothing is done that could not be remembered. What is being cleaned up has no record to write.
  const bool goes = std::ranges::any_of(facts.under_way, is_clean_up);
  const bool must_last = MustLast(wish);
  auto saved = goes ? Result<void>() : saved_.Save(*pod_, memory_, must_last);
  if (saved && !goes) TellLeftOut();
  if (!goes && !told_at && (saved || !must_last)) Report(wish, decision);
  if (!saved) {
    TellUnsaved(saved.error().message());
    outcome.wake_at = services_.clock.Boot() + kRetry;
    // A deletion goes on: it makes room, and a successor sees by itself that nobody wants the pod.
    if (!wish.deletion_grace) return outcome;
  }
  WantProbes(decision.probes);
  Operate(decision);
  return outcome;
}

// Once; of a pod that this agent has heard of first.
void PodWorker::NoteRunning(const std::string& phase) {
  if (!heard_ || phase == "Pending") return;
  if (services_.metrics != nullptr && phase == "Running") {
    services_.metrics->NotePodRunning(services_.clock.Boot() - *heard_);
  }
  heard_.reset();
}

// A new version of the pod, which the turn goes by; the table sends none that is another pod.
void PodWorker::TakeOver(const std::shared_ptr<const corev1::Pod>& pod) {
  if (pod == pod_) return;
  if (services_.metrics != nullptr) services_.metrics->NoteChange(*pod_, *pod);
  pod_ = pod;
  saved_.PodChanged();
  memory_.active_deadline = {};  // it may be another one
  if (inputs_held_) AcquireInputs();
}

// An end that others hear of: whatever happens to this machine, the pod never runs again. What the
// server says itself it knows without us.
bool PodWorker::MustLast(const Wish& wish) const {
  return memory_.origin == PodOrigin::kApi && services_.reporter != nullptr &&
         !memory_.terminal_phase.empty() && !wish.object_gone && !HasEndedElsewhere();
}

// Once for each change; the server's part of it is compared by the reporter.
void PodWorker::Report(const Wish& wish, Decision& decision) {
  const bool has_object = memory_.origin != PodOrigin::kApi || !wish.object_gone;
  if (services_.reporter == nullptr || !has_object) return;
  if (reported_.pod == pod_ && reported_.released == decision.released &&
      MessageDifferencer::Equals(*reported_.status, decision.status)) {
    return;
  }
  reported_ = {pod_, std::make_shared<const corev1::PodStatus>(std::move(decision.status)),
               decision.released, memory_.origin};
  services_.reporter->Report(reported_);
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

// The prober goes on with what it has; it hears of changes only.
void PodWorker::WantProbes(const std::vector<WantedProbe>& probes) {
  if (services_.prober == nullptr || probes == probes_) return;
  probes_ = probes;
  services_.prober->Want(pod_, probes);
}

void PodWorker::LookAtProbes(PodFacts& facts) {
  if (services_.prober != nullptr && !probes_.empty()) {
    facts.probes = services_.prober->FactsOf(PodUid(pod_->metadata().uid()));
  }
}

// A sleep goes on where it was when an agent was killed in it.
void PodWorker::BeginHookOf(const Action& action) {
  const ContainerMemory& mine = memory_.containers[action.container];
  const auto& ips = pod_->spec().hostnetwork() ? node_facts_.host_ips : memory_.pod_ips;
  HookInput input{pod_, action, ips.empty() ? "" : ips.front()};
  const bool stops = action.kind == Action::Kind::kPreStop;
  const WallTime since = stops ? mine.stop->begun : mine.current->started_at;
  input.slept = std::max(services_.clock.Wall() - since, std::chrono::nanoseconds(0));
  if (services_.metrics != nullptr) {
    input.sleep_given_up = [metrics = services_.metrics] { metrics->NoteSleepGivenUp(); };
  }
  operations_.BeginElsewhere(action, [&](PodOperations::Ended ended) {
    return BeginHook(services_.prober->checks(), input, std::move(ended));
  });
}

void PodWorker::Begin(const Action& action) {
  if (IsHook(action.kind) && services_.prober != nullptr) return BeginHookOf(action);
  PodJobInput input{allocated_, action, {}, {}, {}};
  input.inputs = Inputs();
  if (action.kind == Action::Kind::kEnsureSandbox) {
    for (const auto& [name, mine] : memory_.containers) input.attempts[name] = mine.attempts;
  }
  if (action.kind == Action::Kind::kStart) {
    const ContainerMemory& mine = memory_.containers[action.container];
    input.pod_ips = memory_.pod_ips;
    input.image_id = mine.launch->image_id;
    // The run before it stays for `logs --previous`.
    if (mine.before_last) input.before_last = mine.before_last->id;
    const auto target = memory_.containers.find(ContainerNamed(*pod_, action.container).target);
    if (target != memory_.containers.end() && target->second.current) {
      input.target = target->second.current->id;
    }
  }
  if (action.kind == Action::Kind::kResize) {
    for (const auto& [name, mine] : memory_.containers) {
      if (mine.current && !ContainerNamed(*pod_, name).own) input.running[name] = mine.current->id;
    }
  }
  if (action.kind == Action::Kind::kPull) BeginPull(action, input);
  operations_.Begin(
      action,
      [&services = services_, input = std::move(input)](const std::atomic<bool>& cancelled) {
        return PodJob(services, input, cancelled).Run();
      },
      kube::HasPersistent(pod_->spec()));
}

// A try after one that failed: the secrets may be others by now.
void PodWorker::BeginPull(const Action& action, PodJobInput& input) {
  input.asked = services_.clock.Boot();
  const bool again = memory_.containers[action.container].image_back_off.delay.count() != 0;
  if (again && inputs_held_) Inputs()->Refresh(PodUid(pod_->metadata().uid()));
}

PodFacts PodWorker::Observe(const Wish& wish) {
  const auto node = services_.node();
  node_facts_ = NodeFacts{node->node_name, node->host_ips, node->memory_capacity_bytes,
                          services_.max_back_off};
  PodFacts facts;
  facts.pod = allocated_.get();
  facts.asked = pod_.get();
  facts.resize = verdict_;
  facts.deletion_grace = wish.deletion_grace;
  facts.object_gone = wish.object_gone || wish.gives_way;
  facts.eviction = wish.eviction;
  // Before the runtime is asked: what it shows is never older than an end.
  PodOperations::State operations = operations_.Take();
  facts.under_way = std::move(operations.under_way);
  facts.ended = std::move(operations.ended);
  facts.operation_deadline = operation_deadline_;
  PodObservation observation(services_, paths_, *pod_, memory_, Inputs());
  observation.LookAtRuntime(facts);
  look_again_ = observation.look_again();
  if (!links_checked_) EnsureLogLinks(facts.containers);
  links_checked_ = true;
  if (inputs_held_ && !facts.object_gone) observation.LookAtInputs(facts);
  observation.LookAtImages(facts);
  LookAtProbes(facts);
  facts.node = &node_facts_;
  facts.wall = services_.clock.Wall();
  facts.boot = services_.clock.Boot();
  return facts;
}

// A pod of a file is made from nothing that an API server has.
PodInputs* PodWorker::Inputs() const {
  return memory_.origin == PodOrigin::kApi ? services_.inputs : nullptr;
}

void PodWorker::AcquireInputs() {
  if (Inputs() == nullptr || HasEndedElsewhere() || !memory_.terminal_phase.empty()) return;
  Inputs()->Acquire(pod_);
  inputs_held_ = true;
}

void PodWorker::ReleaseInputs() {
  if (std::exchange(inputs_held_, false)) Inputs()->Release(PodUid(pod_->metadata().uid()));
}

// Once, for what a former agent started and may not have come to link.
void PodWorker::EnsureLogLinks(const std::vector<ContainerFact>& containers) {
  for (const ContainerFact& c : containers) {
    LinkLog(services_, paths_, c.observed.name, c.observed.attempt, c.observed.id);
  }
}

void PodWorker::PublishStatus(const corev1::PodStatus& status,
                              std::optional<std::chrono::seconds> deletion_grace) {
  corev1::Pod shown = Shown(*pod_, status);
  if (!shown.metadata().has_creationtimestamp()) {
    *shown.mutable_metadata()->mutable_creationtimestamp() = status.starttime();
  }
  if (deletion_grace && memory_.ending) {
    const auto since = memory_.ending->since + memory_.ending->grace;
    auto* meta = shown.mutable_metadata();
    meta->mutable_deletiontimestamp()->set_seconds(
        std::chrono::floor<std::chrono::seconds>(since.since_epoch).count());
    meta->set_deletiongraceperiodseconds(memory_.ending->grace.count());
  }
  services_.view.Put(std::move(shown));
}

// Once; of one that the node takes.
void PodWorker::TellLeftOut() {
  unsaved_.clear();
  if (std::exchange(told_left_out_, true)) return;
  const bool refused = memory_.admission && !memory_.admission->admitted();
  if (refused || HasEndedElsewhere()) return;
  services_.view.AddEvents(*pod_, LeftOut(*pod_, memory_.origin));
}

// Once for each reason: a full disk stays full for a while.
void PodWorker::TellUnsaved(const std::string& why) {
  if (std::exchange(unsaved_, why) == why) return;
  services_.log(StrCat("pod ", PodLabel(*pod_), ": ", why, ", trying again every 10 s"));
  services_.view.AddEvents(
      *pod_, {EventNote{true, "FailedSync", StrCat("error saving the state of the pod: ", why), "",
                        false}});
}

}  // namespace holdfast::agent
