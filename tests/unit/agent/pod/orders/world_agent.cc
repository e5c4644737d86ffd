// SPDX-License-Identifier: Apache-2.0
// World: the agent in it, which observes, decides, remembers and begins, and is killed.
#include <algorithm>
#include <ranges>

#include "agent/pod/decide/decide.h"
#include "agent/pod/state/record.h"
#include "holdfast/base/strings.h"
#include "tests/unit/agent/pod/orders/world.h"

namespace holdfast::agent::orders {
namespace {

using Kind = Action::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kResync{60};

std::string Quoted(const std::vector<Action>& actions) {
  std::string out;
  for (const Action& action : actions) out += StrCat(out.empty() ? "" : ", ", ToString(action));
  return out;
}

}  // namespace

PodMemory World::Newborn() const {
  PodMemory memory;
  memory.origin = random_.origin;
  memory.admission = random_.rejected ? Admission{"OutOfpods", "too many"} : Admission{};
  if (!random_.rejected) memory.allocation = AllocationOf(random_.pod);
  return memory;
}

std::vector<ProbeFact> World::AskProbes() {
  std::vector<ProbeFact> facts;
  for (const WantedProbe& wanted : probes_) {
    const Process* const p = Running(wanted.container);
    if (p == nullptr || p->id != wanted.id) continue;
    const Script& script = random_.scripts.at(p->name);
    const auto age = now_ - p->started_boot;
    const bool sick = p->run.sick_after && age >= *p->run.sick_after;
    ProbeFact fact{wanted.id, wanted.kind, ProbeResult::kSuccess};
    if (wanted.kind == ProbeKind::kStartup && age < script.started_after) continue;
    const bool relapsed =
        script.unready && age >= script.unready->first && age < script.unready->second;
    if (wanted.kind == ProbeKind::kReadiness && (age < script.ready_after || relapsed))
      fact.result = ProbeResult::kFailure;
    if (wanted.kind == ProbeKind::kLiveness && sick) fact.result = ProbeResult::kFailure;
    facts.push_back(fact);
  }
  return facts;
}

// As agent/pod/execute/pod_place.h: what the node says to other amounts than it was given.
void World::AskForRoom() {
  allocated_ = memory_.allocation ? WithAllocation(asked_, *memory_.allocation) : asked_;
  verdict_.reset();
  const bool ends = deletion_grace_ || memory_.ending || !memory_.terminal_phase.empty();
  if (ends || allocated_ == asked_) return;
  if (infeasible_) {
    verdict_ = ResizeVerdict{ResizeVerdict::How::kInfeasible, "never"};
  } else if (now_ < room_at_) {
    verdict_ = ResizeVerdict{ResizeVerdict::How::kDeferred, "no room"};
  } else {
    verdict_ = ResizeVerdict{};
    allocated_ = asked_;
  }
}

// What the node and the API server say beside the pod's object.
void World::ObserveOthers(PodFacts& facts) const {
  facts.deletion_grace = deletion_grace_;
  facts.object_gone = object_gone_;
  if (IsEvicted()) {
    facts.eviction = Eviction{.why = "too much. ", .signal = "ephemeralpodfs.limit"};
    facts.eviction->reason = random_.eviction_reason;
    facts.eviction->disruption = random_.disrupts;
  }
  if (now_ < born_ + random_.network_after) facts.network_problem = "not yet";
  facts.inputs.secrets_pending = now_ < born_ + random_.secrets_after;
  facts.inputs.sandbox_pending = now_ < born_ + random_.sandbox_after;
  if (random_.origin == PodOrigin::kApi) {
    facts.inputs.pending = now_ < inputs_at_;
    facts.inputs.version = now_ >= inputs_change_at_ ? 2 : 1;
  }
  facts.wall = {now_.since_boot + wall_minus_boot_};
  facts.boot = now_;
}

PodFacts World::Observe() {
  AskForRoom();
  PodFacts facts;
  facts.pod = allocated_.get();
  facts.asked = asked_.get();
  facts.resize = verdict_;
  ObserveOthers(facts);
  for (const Operation& o : operations_) facts.under_way.push_back(o.fact);
  facts.ended = std::exchange(ended_, {});
  if (Troubled()) {
    for (size_t i = facts.ended.size(); i > 1; --i) {
      std::swap(facts.ended[i - 1],
                facts.ended[static_cast<size_t>(dice_.Below(static_cast<int>(i)))]);
    }
  }
  for (const Process& p : processes_) {
    ContainerFact fact;
    fact.observed = {
        .id = p.id,
        .pod_uid = PodUid("u1"),
        .name = p.name,
        .attempt = p.attempt,
        .state = p.runs() ? ObservedContainer::State::kRunning : ObservedContainer::State::kExited,
        .pid = 1,
        .started_at = p.started,
        .exit = p.exit};
    facts.containers.insert(
        facts.containers.begin() + dice_.Below(static_cast<int>(facts.containers.size()) + 1),
        fact);
  }
  const bool made =
      memory_.sandbox_made || std::ranges::any_of(facts.ended, [](const OperationEnd& end) {
        return end.action.kind == Kind::kEnsureSandbox && end.how == OperationEnd::How::kDone;
      });
  facts.sandbox_exists = sandbox_exists();
  facts.sandbox_ready = made && sandbox_ready();
  facts.sandbox_dying = sandbox_dying();
  for (const char* name : {"x", "y"}) {
    ImageFact& image = facts.images[name];
    image.state = images_.contains(name) ? ImageFact::State::kPresent : ImageFact::State::kAbsent;
    image.id = StrCat("sha256:", name);
    image.name = StrCat("docker.io/", name, ":1");
  }
  facts.probes = AskProbes();
  facts.node = &node_;
  return facts;
}

// What is on record counts, whatever happens to the agent.
void World::NoteRemembered(const PodFacts& facts, const Decision& decision) {
  for (const OperationEnd& end : facts.ended) {
    const bool counts =
        end.start_failure && end.start_failure->phase == StartFailure::Phase::kStart;
    if (counts) ends_[end.action.container][end.action.attempt] = 128;
  }
  for (const EventNote& note : decision.events) {
    const Process* const p = note.reason == "Killing" ? Running(note.container) : nullptr;
    if (p == nullptr) continue;
    const auto says = [&](const char* word) {
      return note.message.find(word) != std::string::npos;
    };
    if (says("probe")) stopped_sick_.insert({p->name, p->attempt});
    if (says("resize requires restart") || says("definition changed")) {
      stopped_to_change_.insert({p->name, p->attempt});
    }
  }
  if (verdict_ && verdict_->how == ResizeVerdict::How::kGiven) given_ = allocated_;
  status_ = decision.status;
  released_ = decision.released;
  if (released_ && deletion_grace_ && !object_gone_at_) object_gone_at_ = now_ + seconds(1);
  if (const std::string fault = rules_.NoteRemembered(decision); !fault.empty()) Fault(fault);
}

void World::Turn() {
  ++turns_;
  const auto crash = Troubled() && dice_.OneIn(40) ? static_cast<CrashPoint>(dice_.Between(1, 4))
                                                   : CrashPoint::kNone;
  const PodFacts facts = Observe();
  rules_.NoteFacts(facts);
  const Decision decision = Decide(facts, std::move(memory_));
  memory_ = decision.memory;
  Tell(StrCat("turn: ", Quoted(decision.actions), "; ", decision.status.phase()));
  if (const std::string fault = rules_.LookAt(facts, decision); !fault.empty()) return Fault(fault);
  if (crash == CrashPoint::kBeforeRecord) return Crash();
  const bool goes = std::ranges::any_of(
      facts.under_way, [](const OperationFact& o) { return o.action.kind == Kind::kCleanUp; });
  if (!goes) {
    record_ = decision.memory;
    NoteRemembered(facts, decision);
  }
  if (crash == CrashPoint::kAfterRecord) return Crash();
  const bool asks_more = probes_ != decision.probes;  // it is told of what comes of that
  probes_ = decision.probes;
  for (const Action& action : decision.overdue) {
    for (Operation& o : operations_) {
      if (o.fact.action == action) o.fact.overdue = true;
    }
  }
  for (const Action& action : decision.cancel) Cancel(action);
  for (const Action& action : decision.begin | std::views::reverse) {
    Begin(action);
    if (crash == CrashPoint::kAmongOperations) return Crash();
  }
  if (crash == CrashPoint::kAfterTurn) return Crash();
  PlanNextTurn(decision);
  if (asks_more) NoteNewProbes();
}

void World::NoteNewProbes() {
  idle_ = false;
  next_turn_ = std::min(next_turn_, now_ + dice_.Millis(1, Troubled() ? 3000 : 10));
}

// When it asked for it, a little late; doubled now and then.
void World::PlanNextTurn(const Decision& decision) {
  idle_ = decision.actions.empty() && !decision.wake_at;
  const bool hinted = !ended_.empty();  // cancelled just now
  BootTime next = now_ + kResync;
  if (decision.wake_at) next = std::min(next, *decision.wake_at);
  if (Troubled() && dice_.OneIn(4)) next = next + dice_.Millis(0, 2000);
  if (Troubled() && dice_.OneIn(8)) next = now_;
  next_turn_ = hinted ? now_ : std::max(next, now_ + milliseconds(1));
}

// What was asked of others was done or was not; nobody hears of it.
void World::Crash() {
  Tell("the agent is killed");
  for (Operation& o : operations_) {
    if (!o.took_effect && dice_.OneIn(2)) TakeEffect(o);
  }
  operations_.clear();
  ended_.clear();
  probes_.clear();
  idle_ = false;
  next_turn_ = now_ + dice_.Millis(1, 5000);
  if (!record_) {
    memory_ = Newborn();
    return;
  }
  auto memory = DecodeRecord(EncodeRecord(*record_));
  if (!memory) return Fault(StrCat("the record cannot be read: ", memory.error().message()));
  memory_ = std::move(*memory);
}

}  // namespace holdfast::agent::orders
