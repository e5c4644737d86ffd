// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/pod/orders/rules.h"

#include <algorithm>

#include "agent/pod/decide/decide.h"
#include "holdfast/base/strings.h"
#include "tests/unit/agent/pod/orders/world.h"

namespace holdfast::agent::orders {
namespace {

using Kind = Action::Kind;

constexpr std::chrono::seconds kLeastBeforeKill{2};  // between the signal and SIGKILL
constexpr std::chrono::seconds kEvicted{1};          // of grace

bool RestartsAll(const corev1::Container* c, int code) {
  if (c == nullptr) return false;
  return std::ranges::any_of(c->restartpolicyrules(), [&](const auto& rule) {
    const auto& values = rule.exitcodes().values();
    return rule.action() == "RestartAllContainers" &&
           std::find(values.begin(), values.end(), code) != values.end();
  });
}

bool IsTerminal(const std::string& phase) { return phase == "Succeeded" || phase == "Failed"; }

// What must not be under way when that begins.
bool Excludes(const Action& begins, const Action& other) {
  const auto is = [&](std::initializer_list<Kind> kinds) {
    return std::ranges::find(kinds, other.kind) != kinds.end();
  };
  switch (begins.kind) {
    case Kind::kStart:
      return is({Kind::kStart, Kind::kEnsureVolumes, Kind::kEnsureSandbox, Kind::kRemoveSandbox,
                 Kind::kReleaseVolumes, Kind::kCleanUp});
    case Kind::kEnsureSandbox:
    case Kind::kRemoveSandbox:
      return is({Kind::kStart, Kind::kEnsureSandbox, Kind::kRemoveSandbox, Kind::kCleanUp});
    case Kind::kEnsureVolumes:
      return is({Kind::kEnsureVolumes, Kind::kReleaseVolumes, Kind::kCleanUp});
    case Kind::kReleaseVolumes:
      return is({Kind::kStart, Kind::kEnsureVolumes, Kind::kReleaseVolumes, Kind::kCleanUp});
    case Kind::kCleanUp:
      return true;
    default:
      return other == begins;
  }
}

}  // namespace

// ---- what is known before a decision -------------------------------------------------------

void Rules::NoteExit(const Process& process) {
  const auto script = world_.random().scripts.find(process.name);
  if (script->second.part == Part::kInit && process.exit->exit_code == 0)
    done_.insert(process.name);
}

void Rules::NoteRestartOfAll(const PodFacts& facts) {
  for (const ContainerFact& fact : facts.containers) {
    const ObservedContainer& seen = fact.observed;
    if (!seen.exit || restarted_all_.contains(seen.id)) continue;
    if (RestartsAll(SpecOf(*facts.pod, seen.name), seen.exit->exit_code)) done_.clear();
  }
}

// A sidecar holds up what follows until it has started, by its hook and its probe.
void Rules::NoteFacts(const PodFacts& facts) {
  NoteRestartOfAll(facts);
  for (const ProbeFact& probe : facts.probes) {
    if (probe.kind == ProbeKind::kStartup && probe.result == ProbeResult::kSuccess) {
      started_up_.insert(probe.id);
    }
  }
  for (const OperationEnd& end : facts.ended) {
    const bool done = end.how == OperationEnd::How::kDone;
    if (end.action.kind == Kind::kPostStart && done) hook_done_.insert(end.action.id);
    if (end.action.kind == Kind::kPreStop && end.how != OperationEnd::How::kCancelled) {
      pre_stop_over_.insert(end.action.id);
    }
  }
  for (const ContainerFact& fact : facts.containers) {
    const ObservedContainer& seen = fact.observed;
    const corev1::Container* const c = SpecOf(*facts.pod, seen.name);
    const auto script = world_.random().scripts.find(seen.name);
    if (seen.exit || c == nullptr || script->second.part != Part::kSidecar) continue;
    const bool hooked = !c->lifecycle().has_poststart() || hook_done_.contains(seen.id);
    if (hooked && (!c->has_startupprobe() || started_up_.contains(seen.id)))
      done_.insert(seen.name);
  }
}

// ---- a decision ----------------------------------------------------------------------------

void Rules::NoteStops(const Decision& decision) {
  if (decision.memory.ending && !ending_began_) ending_began_ = world_.now();
  for (const EventNote& note : decision.events) {
    if (note.reason != "Killing") continue;
    const Process* const process = world_.Running(note.container);
    if (process != nullptr) stop_began_.emplace(process->id, world_.now());
  }
}

std::string Rules::CheckStatus(const PodFacts& facts, const corev1::PodStatus& status) const {
  bool all_ready = true;
  for (const auto* list : {&status.initcontainerstatuses(), &status.containerstatuses()}) {
    for (const corev1::ContainerStatus& one : *list) {
      const Part part = world_.random().scripts.at(one.name()).part;
      if (part != Part::kInit) all_ready = all_ready && one.ready() && one.state().has_running();
      if (!one.state().has_running()) continue;
      const bool is_there = std::ranges::any_of(facts.containers, [&](const ContainerFact& fact) {
        return !fact.observed.exit && one.containerid() == "holdfast://" + fact.observed.id.value;
      });
      if (!is_there) return StrCat(one.name(), " is shown as running and does not run");
    }
  }
  for (const auto& condition : status.conditions()) {
    if (condition.type() == "Ready" && condition.status() == "True" && !all_ready) {
      return "the pod is Ready, not all of its containers are";
    }
  }
  return "";
}

// What something waits for is there before it begins.
std::string Rules::CheckWaits(const PodFacts& facts, const Action& action) {
  const bool needs_network = action.kind == Kind::kEnsureSandbox && !facts.sandbox_ready;
  if (needs_network && (!facts.network_problem.empty() || facts.inputs.sandbox_pending)) {
    return StrCat(ToString(action), " without a network or its class");
  }
  if (action.kind == Kind::kPull && facts.inputs.secrets_pending) {
    return StrCat(ToString(action), " without its secrets");
  }
  const bool needs_inputs = action.kind == Kind::kStart || action.kind == Kind::kEnsureVolumes;
  return needs_inputs && facts.inputs.pending ? StrCat(ToString(action), " without its inputs")
                                              : "";
}

std::string Rules::LookAt(const PodFacts& facts, const Decision& decision) {
  if (facts.deletion_grace) {
    least_deletion_grace_ = std::min(least_deletion_grace_, *facts.deletion_grace);
  }
  NoteStops(decision);
  if (facts.deletion_grace && !decision.memory.ending) return "a deletion is not heeded";
  for (const Action& action : decision.begin) {
    const bool starts = action.kind == Kind::kStart || action.kind == Kind::kEnsureSandbox ||
                        action.kind == Kind::kPull || action.kind == Kind::kEnsureVolumes;
    if (starts && decision.memory.ending) return StrCat(ToString(action), " in a pod that ends");
    if (const std::string fault = CheckWaits(facts, action); !fault.empty()) return fault;
  }
  for (const Action& action : decision.begin) {
    if (std::ranges::find(decision.actions, action) == decision.actions.end()) {
      return StrCat(ToString(action), " begins and is not wanted");
    }
  }
  return CheckStatus(facts, decision.status);
}

std::string Rules::NoteRemembered(const Decision& decision) {
  const corev1::PodStatus& status = decision.status;
  if (IsTerminal(phase_) && status.phase() != phase_) {
    return StrCat("the pod was ", phase_, " and is ", status.phase());
  }
  phase_ = status.phase();
  if (IsTerminal(phase_)) {
    for (const Process& process : world_.processes()) {
      if (process.runs()) return StrCat("the pod is ", phase_, ", and ", process.name, " runs");
    }
  }
  for (const auto* list : {&status.initcontainerstatuses(), &status.containerstatuses(),
                           &status.ephemeralcontainerstatuses()}) {
    for (const corev1::ContainerStatus& one : *list) {
      int& before = restarts_[one.name()];
      if (one.restartcount() < before) return StrCat("the restartCount of ", one.name(), " falls");
      before = one.restartcount();
    }
  }
  for (const Process& process : world_.processes()) {
    if (process.exit) restarted_all_.insert(process.id);
  }
  return "";
}

// ---- operations ----------------------------------------------------------------------------

std::string Rules::CheckStart(const Action& action) const {
  if (IsTerminal(phase_)) return StrCat(ToString(action), " in a pod that is ", phase_);
  const auto& spec = world_.random().pod.spec();
  for (const auto& c : spec.initcontainers()) {
    if (c.name() == action.container) break;
    const bool is_ephemeral = world_.random().scripts.at(action.container).part == Part::kEphemeral;
    if (!is_ephemeral && !done_.contains(c.name())) {
      return StrCat(ToString(action), " before ", c.name(), " is done");
    }
  }
  const auto ends = world_.ends().find(action.container);
  if (ends != world_.ends().end() && ends->second.contains(action.attempt)) {
    return StrCat(ToString(action), " a second time");
  }
  return "";
}

std::chrono::seconds Rules::LeastGrace(const std::string& container) const {
  const corev1::Pod& pod = world_.random().pod;
  auto least = std::min(std::chrono::seconds(pod.spec().terminationgraceperiodseconds()),
                        least_deletion_grace_);
  if (world_.random().evicted_after) least = std::min(least, kEvicted);
  const corev1::Container* const c = SpecOf(pod, container);
  const auto& sick = world_.random().scripts.at(container).runs;
  const bool may_be_sick =
      std::ranges::any_of(sick, [](const Run& run) { return run.sick_after.has_value(); });
  if (c != nullptr && may_be_sick && c->livenessprobe().has_terminationgraceperiodseconds()) {
    least =
        std::min(least, std::chrono::seconds(c->livenessprobe().terminationgraceperiodseconds()));
  }
  return least;
}

std::optional<BootTime> Rules::StopBegan(const ContainerId& id) const {
  const auto stop = stop_began_.find(id);
  if (stop == stop_began_.end()) return ending_began_;
  return ending_began_ ? std::min(*ending_began_, stop->second) : stop->second;
}

std::string Rules::CheckSignal(const Action& action) const {
  const std::optional<BootTime> began = StopBegan(action.id);
  if (!began) return StrCat(ToString(action), " that nobody was told of");
  const corev1::Container* const c = SpecOf(world_.random().pod, action.container);
  if (c == nullptr || !c->lifecycle().has_prestop()) return "";
  const bool over =
      pre_stop_over_.contains(action.id) || world_.now() - *began >= LeastGrace(action.container);
  return over ? "" : StrCat(ToString(action), " before its preStop hook is over");
}

std::string Rules::CheckKill(const Action& action) const {
  if (world_.random().restarts_all) return "";  // without grace
  const std::optional<BootTime> began = StopBegan(action.id);
  const auto signalled = signalled_.find(action.id);
  if (!began || signalled == signalled_.end()) return StrCat(ToString(action), " without a signal");
  if (world_.now() - *began < LeastGrace(action.container)) {
    return StrCat(ToString(action), " within its grace period");
  }
  if (world_.now() - signalled->second < kLeastBeforeKill) {
    return StrCat(ToString(action), " right after the signal");
  }
  return "";
}

std::string Rules::Begins(const Action& action) {
  for (const Operation& other : world_.operations()) {
    if (Excludes(action, other.fact.action)) {
      return StrCat(ToString(action), " beside ", ToString(other.fact.action));
    }
  }
  switch (action.kind) {
    case Kind::kStart:
      return CheckStart(action);
    case Kind::kSignal:
      signalled_.emplace(action.id, world_.now());
      return CheckSignal(action);
    case Kind::kKill:
      return CheckKill(action);
    default:
      return "";
  }
}

std::string Rules::TakesEffect(const Action& action) {
  const auto runs = [](const Process& process) { return process.runs(); };
  const bool anything = std::ranges::any_of(world_.processes(), runs);
  switch (action.kind) {
    case Kind::kStart:
      if (world_.Running(action.container) != nullptr) {
        return StrCat(ToString(action), " while it runs");
      }
      return world_.volumes() ? "" : StrCat(ToString(action), " without volumes");
    case Kind::kEnsureSandbox:
      return anything && !world_.sandbox_ready() ? "a new sandbox under a container that runs" : "";
    case Kind::kRemoveSandbox:
    case Kind::kReleaseVolumes:
    case Kind::kCleanUp:
      if (action.kind == Kind::kCleanUp && world_.sandbox_exists())
        return "clean up beside a sandbox";
      return anything ? StrCat(ToString(action), " under a container that runs") : "";
    case Kind::kRemove:
      for (const Process& process : world_.processes()) {
        if (process.id == action.id && process.runs())
          return StrCat(ToString(action), " while it runs");
      }
      return "";
    default:
      return "";
  }
}

}  // namespace holdfast::agent::orders
