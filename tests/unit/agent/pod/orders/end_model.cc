// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/pod/orders/end_model.h"

#include <algorithm>
#include <optional>

#include "holdfast/base/strings.h"
#include "tests/unit/agent/pod/orders/world.h"

namespace holdfast::agent::orders {
namespace {

struct Modelled {
  std::string name;
  Part part = Part::kMain;
  std::string policy;                       // the effective one
  const corev1::Container* spec = nullptr;  // not of an ephemeral one
};

std::vector<Modelled> ModelledOf(const corev1::Pod& pod) {
  std::vector<Modelled> out;
  for (const auto& c : pod.spec().initcontainers()) {
    const bool sidecar = c.restartpolicy() == "Always";
    out.push_back({c.name(), sidecar ? Part::kSidecar : Part::kInit,
                   sidecar || pod.spec().restartpolicy() != "Never" ? "OnFailure" : "Never", &c});
  }
  for (const auto& c : pod.spec().containers()) {
    out.push_back({c.name(), Part::kMain,
                   c.restartpolicy().empty() ? pod.spec().restartpolicy() : c.restartpolicy(), &c});
  }
  for (const auto& c : pod.spec().ephemeralcontainers()) {
    out.push_back({c.ephemeralcontainercommon().name(), Part::kEphemeral, "Never", nullptr});
  }
  return out;
}

bool RuleBringsBack(const Modelled& c, int code) {
  if (c.spec == nullptr) return false;
  for (const auto& rule : c.spec->restartpolicyrules()) {
    const auto& values = rule.exitcodes().values();
    if (std::find(values.begin(), values.end(), code) != values.end()) return true;
  }
  return false;
}

// Of a container that has ended so.
bool ComesBack(const Modelled& c, int code) {
  if (c.part == Part::kSidecar || RuleBringsBack(c, code)) return true;
  return c.policy == "Always" || (c.policy == "OnFailure" && code != 0);
}

// How it ended for good, if it has; -1 never ran.
std::optional<int> EndedForGood(const World& world, const Modelled& c) {
  if (world.Running(c.name) != nullptr) return std::nullopt;
  const auto ends = world.ends().find(c.name);
  if (ends == world.ends().end() || ends->second.empty()) return std::nullopt;
  const auto [attempt, code] = *ends->second.rbegin();
  const bool killed_to_come_back = (world.StoppedSick(c.name, attempt) && ComesBack(c, 137)) ||
                                   world.StoppedToChange(c.name, attempt);
  if (killed_to_come_back || ComesBack(c, code)) return std::nullopt;
  return code;
}

const corev1::ContainerStatus* StatusOf(const corev1::PodStatus& status, const std::string& name) {
  for (const auto* list : {&status.initcontainerstatuses(), &status.containerstatuses(),
                           &status.ephemeralcontainerstatuses()}) {
    for (const auto& one : *list) {
      if (one.name() == name) return &one;
    }
  }
  return nullptr;
}

std::string Gone(const World& world, bool volumes_may_stay) {
  for (const Process& process : world.processes()) {
    if (process.runs()) return StrCat(process.name, " runs in a pod that has ended");
  }
  if (world.sandbox_exists()) return "the sandbox of a pod that has ended is there";
  if (world.volumes() && !volumes_may_stay) return "volumes of a pod that has ended are there";
  return "";
}

std::string Ended(const World& world, const std::string& phase, const std::string& reason) {
  const auto& status = world.status();
  if (status.phase() != phase || status.reason() != reason) {
    return StrCat("the pod is ", status.phase(), " ", status.reason(), ", the model's ", phase, " ",
                  reason);
  }
  for (const auto& condition : world.status().conditions()) {
    if (condition.type().starts_with("PodResize")) return "a pod that has ended waits for a resize";
  }
  const bool reported = world.random().origin == PodOrigin::kApi;
  if (reported && !world.released()) return "a pod that has ended is not given up";
  return Gone(world, !reported);
}

// Restart counts follow from how often it ended or runs.
std::string CompareCounts(const World& world, const Modelled& c) {
  const corev1::ContainerStatus* const status = StatusOf(world.status(), c.name);
  if (status == nullptr) return StrCat("no status of ", c.name);
  const Process* const running = world.Running(c.name);
  const auto ends = world.ends().find(c.name);
  int attempts = ends == world.ends().end() ? 0 : static_cast<int>(ends->second.size());
  if (running != nullptr) ++attempts;
  if (status->restartcount() != std::max(attempts - 1, 0)) {
    return StrCat(c.name, " has restartCount ", status->restartcount(), " after ", attempts,
                  " runs");
  }
  if (status->state().has_running() != (running != nullptr)) {
    return StrCat(c.name, running != nullptr ? " runs" : " does not run",
                  ", its status says other");
  }
  if (running != nullptr && c.part != Part::kEphemeral && !status->ready()) {
    return StrCat(c.name, " runs and is not ready");
  }
  const bool kept =
      ends != world.ends().end() && !ends->second.empty() && !world.random().restarts_all;
  if (!kept) return "";
  const auto& ended = running != nullptr ? status->laststate() : status->state();
  const int code = ends->second.rbegin()->second;
  if (ended.terminated().exitcode() != code) {
    return StrCat(c.name, " ended with ", code, ", its status says ",
                  ended.terminated().exitcode());
  }
  return "";
}

bool HasCondition(const World& world, const std::string& type) {
  return std::ranges::any_of(world.status().conditions(), [&](const auto& condition) {
    return condition.type() == type && condition.status() == "True";
  });
}

std::string CpuOf(const corev1::Container& c) {
  const auto cpu = c.resources().requests().find("cpu");
  return cpu == c.resources().requests().end() ? "" : cpu->second.string();
}

// Of one that runs: it has the image and the amounts that it is to have, and its status says so.
std::string CompareChanges(const World& world, const Modelled& c) {
  const Process* const process = world.Running(c.name);
  if (process == nullptr || c.part == Part::kEphemeral) return "";
  const corev1::Container& asked = *SpecOf(world.asked(), c.name);
  const corev1::Container& given = *SpecOf(world.given(), c.name);
  if (c.part != Part::kInit && process->image != asked.image()) {
    return StrCat(c.name, " runs ", process->image, ", asked for is ", asked.image());
  }
  const std::string wanted = CpuOf(world.IsInfeasible() ? given : asked);
  if (wanted.empty()) return "";
  const auto has = process->amounts.requests.find("cpu");
  const std::string cpu = has == process->amounts.requests.end() ? "" : has->second;
  if (cpu != wanted) return StrCat(c.name, " has ", cpu, " of cpu, the model's ", wanted);
  const corev1::ContainerStatus& status = *StatusOf(world.status(), c.name);
  const std::string& shown = status.resources().requests().at("cpu").string();
  return shown == wanted ? "" : StrCat(c.name, " has ", cpu, ", its status says ", shown);
}

// What it asks for it was given, or never will be.
std::string CompareResize(const World& world, const std::vector<Modelled>& all) {
  if (HasCondition(world, "PodResizeInProgress")) return "a resize does not come to its end";
  const bool differs = std::ranges::any_of(all, [&](const Modelled& c) {
    return c.part != Part::kEphemeral &&
           CpuOf(*SpecOf(world.asked(), c.name)) != CpuOf(*SpecOf(world.given(), c.name));
  });
  const bool waits = HasCondition(world, "PodResizePending");
  if (differs && !world.IsInfeasible()) return "what it asks for it was not given";
  if (differs != waits) return waits ? "it waits for a resize" : "nobody is told of what cannot be";
  for (const Modelled& c : all) {
    if (std::string fault = CompareChanges(world, c); !fault.empty()) return fault;
  }
  return "";
}

// A pod that is not to end: what serves runs, what is done stays done.
std::string Lives(const World& world, const std::vector<Modelled>& all) {
  if (world.status().phase() != "Running")
    return StrCat("the pod is ", world.status().phase(), ", the model's Running");
  for (const Modelled& c : all) {
    const bool runs = world.Running(c.name) != nullptr;
    const bool is_to_run =
        c.part == Part::kSidecar || (c.part == Part::kMain && !EndedForGood(world, c));
    if (is_to_run && !runs) return StrCat(c.name, " is to run and does not");
    if (c.part == Part::kInit && EndedForGood(world, c) != 0) return StrCat(c.name, " is not done");
    if (c.part == Part::kEphemeral && !runs && !EndedForGood(world, c))
      return StrCat(c.name, " never ran");
    if (std::string fault = CompareCounts(world, c); !fault.empty()) return fault;
  }
  if (!world.sandbox_ready() || !world.volumes())
    return "a pod runs without its sandbox or volumes";
  return CompareResize(world, all);
}

// The phase by its containers' ends, if these are an end.
std::optional<std::string> PhaseByEnds(const World& world, const std::vector<Modelled>& all) {
  bool all_main = true;
  bool failed = false;
  for (const Modelled& c : all) {
    const std::optional<int> end = EndedForGood(world, c);
    if (c.part == Part::kInit && end && *end != 0) return "Failed";
    if (c.part != Part::kMain) continue;
    all_main = all_main && end;
    failed = failed || end.value_or(0) != 0;
  }
  if (!all_main) return std::nullopt;
  return failed ? "Failed" : "Succeeded";
}

}  // namespace

std::string CompareWithModel(const World& world) {
  if (world.deleted()) {
    if (!world.cleaned()) return "a deleted pod is still there";
    return Gone(world, false);
  }
  if (world.random().rejected) {
    if (!world.ends().empty()) return "a container of a rejected pod ran";
    return Ended(world, "Failed", "OutOfpods");
  }
  const std::vector<Modelled> all = ModelledOf(world.random().pod);
  // What has ended before is not ended again.
  const bool has_deadline = world.random().pod.spec().has_activedeadlineseconds();
  const std::string& reason = world.status().reason();
  const bool was_evicted = world.random().evicted_after && reason == world.random().eviction_reason;
  const bool was_ended = (has_deadline && reason == "DeadlineExceeded") || was_evicted ||
                         (world.random().ended_elsewhere_after && reason == kElsewhere);
  if (was_evicted && HasCondition(world, "DisruptionTarget") != world.random().disrupts) {
    return "its condition does not tell why it was evicted";
  }
  if (was_ended) return Ended(world, "Failed", reason);
  const auto phase = PhaseByEnds(world, all);
  if (phase) return Ended(world, *phase, "");
  if (has_deadline || world.random().evicted_after || world.random().ended_elsewhere_after) {
    return "the pod was to end by its deadline, for what it took or as others say, and has not";
  }
  return Lives(world, all);
}

}  // namespace holdfast::agent::orders
