// SPDX-License-Identifier: Apache-2.0
// In-place resize: what the node said to other amounts, cgroups that follow, containers that start again for it; its
// conditions and events. Source: feature-map 1.9; kubelet 1.36.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/kube/codec.h"
#include "agent/kube/print.h"
#include "agent/pod/decide/planning.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

using kube::Node;

constexpr char kResizeError[] = "Error";

Node SummaryOf(const corev1::Container& container) {
  Node summary = Node::Map();
  summary.Add("name", Node::String(container.name()));
  summary.Add("resources", kube::ToTree(container.resources()));
  return summary;
}

// `Pod resize started: {"containers":[…],"generation":2}`
std::string Summary(const std::string& what, const corev1::Pod& pod, int64_t generation,
                    const std::string& error = "") {
  Node summary = Node::Map();
  const auto add = [&](const char* list, const auto& containers) {
    if (containers.empty()) return;
    Node items = Node::List();
    for (const corev1::Container& container : containers) {
      items.items.push_back(SummaryOf(container));
    }
    summary.Add(list, std::move(items));
  };
  add("initContainers", pod.spec().initcontainers());
  add("containers", pod.spec().containers());
  summary.Add("generation", Node::Int(generation));
  if (!error.empty()) summary.Add("error", Node::String(error));
  return StrCat(what, ": ", kube::CompactJson(summary));
}

void NoteGiven(Planning& p) {
  const int64_t generation = p.pod.metadata().generation();
  if (!p.memory.pod_amounts) {
    const auto pod = std::make_shared<const corev1::Pod>(p.pod);
    p.memory.pod_amounts = PodAmounts(*WithAllocation(pod, *p.memory.allocation));
  }
  p.memory.allocation = AllocationOf(p.pod);
  ++p.memory.allocations;
  p.memory.resize_pending.reset();
  p.memory.resize_in_progress = ResizeNote{"", "", generation, p.facts.wall, p.facts.wall};
  p.Event(false, "ResizeStarted", Summary("Pod resize started", p.pod, generation), nullptr);
}

// Told again for another reason and for another wish, not for another message.
void NotePending(Planning& p, const ResizeVerdict& verdict) {
  const corev1::Pod& asked = *p.facts.asked;
  const bool deferred = verdict.how == ResizeVerdict::How::kDeferred;
  const std::string reason = deferred ? kDeferred : kInfeasible;
  const int64_t generation = asked.metadata().generation();
  std::optional<ResizeNote>& note = p.memory.resize_pending;
  const bool same_reason = note && note->reason == reason;
  const bool told = same_reason && note->generation == generation;
  if (told && note->message == verdict.message) return;
  note = ResizeNote{reason, verdict.message, generation, same_reason ? note->since : p.facts.wall,
                    p.facts.wall};
  if (told) return;
  p.Event(true, deferred ? "ResizeDeferred" : "ResizeInfeasible",
          Summary(StrCat("Pod resize ", reason), asked, generation, verdict.message), nullptr);
}

bool IsBehind(const Planning& p, const SpecContainer& c) {
  const ContainerMemory& mine = p.memory.containers[c.name()];
  const Amounts* const has = AmountsIn(mine);
  return c.role != Role::kEphemeral && has != nullptr &&
         !IsSame(*has, EffectiveAmounts(p.pod, *c.spec));
}

bool DiffersIn(const std::string& resource, Amounts a, Amounts b) {
  const auto is_another = [&](const auto& entry) { return entry.first != resource; };
  for (auto* list : {&a.requests, &a.limits, &b.requests, &b.limits}) {
    std::erase_if(*list, is_another);
  }
  return !IsSame(a, b);
}

// Of a container that is behind: whether an amount differs for which it wants to be started again.
bool NeedsRestart(const Planning& p, const SpecContainer& c) {
  if (c.role == Role::kInit) return false;
  const Amounts wanted = EffectiveAmounts(p.pod, *c.spec);
  const Amounts& has = *AmountsIn(p.memory.containers[c.name()]);
  return std::ranges::any_of(c.spec->resizepolicy(), [&](const auto& policy) {
    return policy.restartpolicy() == "RestartContainer" &&
           DiffersIn(policy.resourcename(), has, wanted);
  });
}

// What has to start again for it ends before the cgroups change, as with a kubelet. True while one runs.
bool StopForResize(Planning& p) {
  bool runs = false;
  for (const SpecContainer& c : p.containers) {
    ContainerMemory& mine = p.Memory(c);
    if (!IsBehind(p, c) || !NeedsRestart(p, c)) continue;
    runs = true;
    mine.again = true;  // whatever its policy says
    mine.restart_back_off = {};
    StopOne(p, c,
            {.why = StrCat("Container ", c.name(), " resize requires restart"),
             .grace = GracePeriod(p.pod)});
  }
  return runs;
}

bool IsBehind(const Planning& p) {
  const std::optional<Amounts>& pod_has = p.memory.pod_amounts;
  return (pod_has && !IsSame(*pod_has, PodAmounts(p.pod))) ||
         std::ranges::any_of(p.containers, [&](const SpecContainer& c) { return IsBehind(p, c); });
}

// What an agent before resizes started has what it was given then.
void NoteUnknownAmounts(Planning& p) {
  for (const SpecContainer& c : p.containers) {
    ContainerMemory& mine = p.Memory(c);
    if (!mine.current || !mine.launch || mine.launch->attempt != mine.current->attempt) continue;
    if (!mine.launch->amounts) mine.launch->amounts = EffectiveAmounts(p.pod, *c.spec);
  }
}

}  // namespace

const Amounts* AmountsIn(const ContainerMemory& mine) {
  const bool known = mine.current && mine.launch && mine.launch->amounts &&
                     mine.launch->attempt == mine.current->attempt;
  return known ? &*mine.launch->amounts : nullptr;
}

void NoteAllocation(Planning& p) {
  if (p.memory.admission && !p.memory.admission->admitted()) return;
  if (!p.memory.terminal_phase.empty()) {
    p.memory.resize_pending.reset();
    p.memory.resize_in_progress.reset();
    return;
  }
  if (!p.memory.allocation) return;
  if (!p.facts.resize) {
    const bool asks = p.facts.asked != nullptr && p.facts.asked != p.facts.pod;  // it is only shown
    if (!asks) p.memory.resize_pending.reset();
    return NoteUnknownAmounts(p);
  }
  if (p.facts.resize->how == ResizeVerdict::How::kGiven) return NoteGiven(p);
  NotePending(p, *p.facts.resize);
}

void NoteResizeProgress(Planning& p) {
  std::optional<ResizeNote>& note = p.memory.resize_in_progress;
  const int64_t generation = p.pod.metadata().generation();
  if (IsBehind(p)) {
    if (!note) note = ResizeNote{"", "", generation, p.facts.wall, p.facts.wall};
  } else if (note) {
    p.Event(false, "ResizeCompleted", Summary("Pod resize completed", p.pod, note->generation),
            nullptr);
    note.reset();
  }
}

void PlanResize(Planning& p) {
  if (!p.facts.sandbox_ready || !IsBehind(p) || StopForResize(p)) return;
  Action resize{Action::Kind::kResize};
  resize.attempt = p.memory.allocations;
  p.Act(std::move(resize));
}

void FoldResized(Planning& p, const OperationEnd& end) {
  p.memory.pod_amounts = end.resized_pod;
  if (end.action.attempt == p.memory.allocations) p.memory.pod_amounts.reset();
  for (auto& [name, mine] : p.memory.containers) {
    if (AmountsIn(mine) == nullptr) continue;
    const auto has = end.resized.find(mine.current->id);
    if (has != end.resized.end()) mine.launch->amounts = has->second;
  }
}

void FoldResizeFailed(Planning& p, const OperationEnd& end) {
  std::optional<ResizeNote>& note = p.memory.resize_in_progress;
  if (!note || end.action.attempt != p.memory.allocations) return;  // it is another one by now
  if (note->reason == kResizeError && note->message == end.error) return;
  *note = ResizeNote{kResizeError, end.error, note->generation,
                     note->reason == kResizeError ? note->since : p.facts.wall, p.facts.wall};
  p.Event(true, "ResizeError", Summary("Pod resize error", p.pod, note->generation, end.error),
          nullptr);
}

}  // namespace holdfast::agent
