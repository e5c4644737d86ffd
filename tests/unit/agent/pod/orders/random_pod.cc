// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/pod/orders/random_pod.h"

#include "agent/pod/decide/types.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::orders {
namespace {

constexpr int kRestartAllCode = 42;
constexpr int kRestartCode = 43;
constexpr char kCpu[] = "100m";  // what each container asks for, where the pod may be resized

void SetHandler(corev1::ProbeHandler* handler) {
  handler->mutable_tcpsocket()->mutable_port()->set_intval(80);
}

void ThrowProbes(Dice& dice, corev1::Container& c) {
  if (dice.OneIn(4)) SetHandler(c.mutable_startupprobe()->mutable_handler());
  if (dice.OneIn(3)) SetHandler(c.mutable_readinessprobe()->mutable_handler());
  if (!dice.OneIn(3)) return;
  SetHandler(c.mutable_livenessprobe()->mutable_handler());
  if (dice.OneIn(2))
    c.mutable_livenessprobe()->set_terminationgraceperiodseconds(dice.Between(1, 8));
}

void ThrowHooks(Dice& dice, corev1::Container& c) {
  if (dice.OneIn(4)) {
    c.mutable_lifecycle()->mutable_poststart()->mutable_sleep()->set_seconds(1);
  }
  if (dice.OneIn(3)) c.mutable_lifecycle()->mutable_prestop()->mutable_sleep()->set_seconds(1);
}

void AddRule(corev1::Container& c, const char* action, int code) {
  if (c.restartpolicy().empty()) c.set_restartpolicy("Never");  // rules need a policy of their own
  corev1::ContainerRestartRule* const rule = c.add_restartpolicyrules();
  rule->set_action(action);
  rule->mutable_exitcodes()->set_operator_("In");
  rule->mutable_exitcodes()->add_values(code);
}

void ThrowPolicy(Dice& dice, corev1::Container& c, RandomPod& out) {
  constexpr const char* kPolicies[] = {"Always", "OnFailure", "Never"};
  if (dice.OneIn(4)) c.set_restartpolicy(kPolicies[dice.Below(3)]);
  if (dice.OneIn(8)) AddRule(c, "Restart", kRestartCode);
  if (!dice.OneIn(12)) return;
  AddRule(c, "RestartAllContainers", kRestartAllCode);
  out.restarts_all = true;
}

Run Ends(Dice& dice, int code) {
  return {.lasts = dice.Millis(0, dice.OneIn(3) ? 60'000 : 3000), .exit_code = code};
}

// What a container of the policy would be started again for is no end of it.
bool ComesBack(const corev1::Pod& pod, const corev1::Container& c, int code) {
  const std::string& policy =
      c.restartpolicy().empty() ? pod.spec().restartpolicy() : c.restartpolicy();
  return policy == "Always" || (policy == "OnFailure" && code != 0);
}

// Up to two runs that fail, then what it does for good.
void ThrowRuns(Dice& dice, const corev1::Pod& pod, const corev1::Container& c, Script& script) {
  for (int i = dice.OneIn(2) ? 0 : dice.Between(0, 2); i > 0; --i) {
    int code = dice.Between(1, 3);
    if (!c.restartpolicyrules().empty() && dice.OneIn(2)) {
      code = c.restartpolicyrules(0).exitcodes().values(0);
    }
    script.runs.push_back(Ends(dice, code));
    if (c.has_livenessprobe() && dice.OneIn(2)) {
      script.runs.back() = {.sick_after = dice.Millis(100, 20'000)};
    }
  }
  const int last = dice.OneIn(4) ? 1 : 0;
  const bool ends = script.part == Part::kInit || script.part == Part::kEphemeral ||
                    (script.part == Part::kMain && dice.OneIn(2) && !ComesBack(pod, c, last));
  if (script.part == Part::kInit) return script.runs.push_back(Ends(dice, 0));
  script.runs.push_back(ends ? Ends(dice, last) : Run{});
}

void ThrowScript(Dice& dice, Part part, const corev1::Container& c, RandomPod& out) {
  Script& script = out.scripts[c.name()];
  script.part = part;
  script.started_after = dice.Millis(0, 4000);
  script.ready_after = script.started_after + dice.Millis(0, 4000);
  if (dice.OneIn(4)) {
    const auto from = script.ready_after + dice.Millis(0, 20'000);
    script.unready = {from, from + dice.Millis(1, 20'000)};
  }
  if (!dice.OneIn(4)) script.dies_after = dice.Millis(0, dice.OneIn(3) ? 20'000 : 500);
  script.code_when_stopped = dice.OneIn(2) ? 143 : 0;
  ThrowRuns(dice, out.pod, c, script);
}

void ThrowResizePolicy(Dice& dice, corev1::Container& c) {
  (*c.mutable_resources()->mutable_requests())["cpu"].set_string(kCpu);
  if (!dice.OneIn(3)) return;
  corev1::ContainerResizePolicy* const policy = c.add_resizepolicy();
  policy->set_resourcename("cpu");
  policy->set_restartpolicy(dice.OneIn(2) ? "RestartContainer" : "NotRequired");
}

void ThrowContainer(Dice& dice, Part part, int number, RandomPod& out) {
  corev1::PodSpec& spec = *out.pod.mutable_spec();
  const bool in_init_list = part == Part::kInit || part == Part::kSidecar;
  corev1::Container& c = in_init_list ? *spec.add_initcontainers() : *spec.add_containers();
  constexpr const char* kNames[] = {"init", "side", "main"};
  c.set_name(StrCat(kNames[static_cast<int>(part)], number));
  c.set_image("x");
  c.set_imagepullpolicy(dice.OneIn(6) ? "Always" : "IfNotPresent");
  if (part == Part::kSidecar) c.set_restartpolicy("Always");
  if (part == Part::kMain) ThrowPolicy(dice, c, out);
  if (part != Part::kInit) {
    ThrowProbes(dice, c);
    ThrowHooks(dice, c);
    ThrowResizePolicy(dice, c);
  }
  ThrowScript(dice, part, c, out);
}

void ThrowEphemeral(Dice& dice, RandomPod& out) {
  corev1::EphemeralContainerCommon* const common =
      out.pod.mutable_spec()->add_ephemeralcontainers()->mutable_ephemeralcontainercommon();
  common->set_name("look");
  common->set_image("x");
  common->set_imagepullpolicy("IfNotPresent");
  corev1::Container c;
  c.set_name("look");
  c.set_restartpolicy("Never");
  ThrowScript(dice, Part::kEphemeral, c, out);
}

void ThrowEnd(Dice& dice, RandomPod& out) {
  if (dice.OneIn(2))
    out.deleted_after = std::chrono::seconds(dice.Between(0, dice.OneIn(2) ? 5 : 200));
  constexpr int kGraces[] = {0, 1, 5, 30};
  out.deletion_grace = std::chrono::seconds(kGraces[dice.Below(4)]);
  if (dice.OneIn(4)) out.shortened_after = std::chrono::seconds(dice.Between(0, 20));
  out.forced = dice.OneIn(4);
}

// Of a container that may be changed while the pod is there.
void ThrowWishes(Dice& dice, RandomPod& out) {
  if (out.origin != PodOrigin::kApi || !dice.OneIn(3)) return;
  std::vector<std::string> names;
  for (const auto& [name, script] : out.scripts) {
    if (script.part == Part::kMain || script.part == Part::kSidecar) names.push_back(name);
  }
  std::chrono::seconds at{0};
  for (int i = dice.Between(1, 3); i > 0; --i) {
    at += std::chrono::seconds(dice.Between(0, 60));
    Wish wish{.what = dice.OneIn(4) ? Wish::What::kImage : Wish::What::kCpu, .after = at};
    wish.container = names[static_cast<size_t>(dice.Below(static_cast<int>(names.size())))];
    constexpr const char* kImages[] = {"x", "y"};
    wish.value = wish.what == Wish::What::kImage ? kImages[dice.Below(2)]
                                                 : StrCat(dice.Between(1, 4), "00m");
    if (dice.OneIn(3)) wish.room_after = std::chrono::seconds(dice.Between(1, 60));
    wish.infeasible = dice.OneIn(6);
    out.wishes.push_back(std::move(wish));
  }
}

void ThrowEndByOthers(Dice& dice, RandomPod& out) {
  if (dice.OneIn(8)) out.evicted_after = std::chrono::seconds(dice.Between(0, 100));
  if (dice.OneIn(3)) out.eviction_reason = kPreempting;
  out.disrupts = out.eviction_reason == kPreempting || dice.OneIn(2);
  const bool may_be = out.origin == PodOrigin::kApi && !out.rejected;
  if (may_be && dice.OneIn(12)) {
    out.ended_elsewhere_after = std::chrono::seconds(dice.Between(1, 100));
  }
}

void ThrowWaits(Dice& dice, RandomPod& out) {
  if (dice.OneIn(6)) out.network_after = dice.Millis(1, 20'000);
  if (out.origin != PodOrigin::kApi) return;
  if (dice.OneIn(6)) out.secrets_after = dice.Millis(1, 20'000);
  if (dice.OneIn(6)) out.sandbox_after = dice.Millis(1, 20'000);
}

// With one that serves, so that it is surely reached, unless that one cannot be started.
void ThrowDeadline(Dice& dice, RandomPod& out) {
  if (!dice.OneIn(8)) return;
  out.pod.mutable_spec()->set_activedeadlineseconds(dice.Between(1, 120));
  out.scripts["main0"].runs = {Run{}};
}

}  // namespace

const corev1::Container* SpecOf(const corev1::Pod& pod, const std::string& name) {
  for (const auto* list : {&pod.spec().initcontainers(), &pod.spec().containers()}) {
    for (const auto& c : *list) {
      if (c.name() == name) return &c;
    }
  }
  return nullptr;
}

RandomPod ThrowPod(Dice& dice) {
  RandomPod out;
  auto* const meta = out.pod.mutable_metadata();
  meta->set_name("web-n1");
  meta->set_namespace_("default");
  meta->set_uid("u1");
  constexpr const char* kPolicies[] = {"Always", "OnFailure", "Never"};
  corev1::PodSpec& spec = *out.pod.mutable_spec();
  spec.set_restartpolicy(kPolicies[dice.Below(3)]);
  spec.set_terminationgraceperiodseconds(dice.OneIn(3) ? 1 : dice.Between(2, 30));
  out.origin = dice.OneIn(2) ? PodOrigin::kApi : PodOrigin::kFile;
  for (int i = 0, all = dice.Below(4); i < all; ++i) {
    ThrowContainer(dice, dice.OneIn(2) ? Part::kInit : Part::kSidecar, i, out);
  }
  for (int i = 0, all = dice.Between(1, 3); i < all; ++i) ThrowContainer(dice, Part::kMain, i, out);
  if (dice.OneIn(6)) ThrowEphemeral(dice, out);
  ThrowDeadline(dice, out);
  ThrowEnd(dice, out);
  out.rejected = dice.OneIn(32);
  ThrowEndByOthers(dice, out);
  ThrowWishes(dice, out);
  ThrowWaits(dice, out);
  out.image_is_here = !dice.OneIn(3);
  return out;
}

}  // namespace holdfast::agent::orders
