// SPDX-License-Identifier: Apache-2.0
#include "agent/evict/pressure_watch.h"

#include <algorithm>
#include <utility>

#include "agent/kube/pod_resources.h"
#include "agent/kube/pod_status.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace core = ::k8s::io::api::core::v1;

bool IsOfMemory(const Shortage& shortage) {
  return ResourceOf(shortage.threshold.signal) == "memory";
}

bool IsOfTheDisk(PressureSignal signal) {
  return ResourceOf(signal) != "memory" && signal != PressureSignal::kPids;
}

std::string NameOf(const core::Pod& pod) {
  return StrCat(pod.metadata().namespace_(), "/", pod.metadata().name());
}

}  // namespace

Result<void> PressureWatch::Start() {
  return thread_.Start("pressure-watch", kPeriod,
                       [this](const std::stop_token&) { return Look(); });
}

std::chrono::milliseconds PressureWatch::Look() {
  std::vector<PodPtr> pods = parts_.pods.ListPods();
  std::erase_if(pods,
                [](const PodPtr& pod) { return kube::IsTerminalPhase(pod->status().phase()); });
  if (WaitsForVictim(pods)) return kPoll;
  const std::vector<Shortage> shortages = shortages_.Of(parts_.rooms(), parts_.clock.Boot());
  parts_.memory_is_short(std::ranges::any_of(shortages, &IsOfMemory));
  if (shortages.empty()) return kPeriod;
  const Shortage& shortage = shortages.front();
  const std::string resource(ResourceOf(shortage.threshold.signal));
  parts_.tell(
      {true, "EvictionThresholdMet", StrCat("Attempting to reclaim ", resource), "", false});
  if (MakesEnoughRoom(shortage.threshold.signal)) return kPeriod;
  return EvictOne(pods, shortage) ? kPoll : kPeriod;
}

// Forgets who has ended.
bool PressureWatch::WaitsForVictim(const std::vector<PodPtr>& pods) {
  std::erase_if(evicted_, [&](const std::string& uid) {
    return std::ranges::none_of(pods,
                                [&](const PodPtr& pod) { return pod->metadata().uid() == uid; });
  });
  if (!victim_) return false;
  if (evicted_.contains(victim_->uid) && parts_.clock.Boot() - victim_->since < kPatience)
    return true;
  victim_.reset();
  return false;
}

bool PressureWatch::MakesEnoughRoom(PressureSignal signal) {
  if (!IsOfTheDisk(signal)) return false;
  parts_.make_room();
  return shortages_.Of(parts_.rooms(), parts_.clock.Boot()).empty();
}

bool PressureWatch::EvictOne(const std::vector<PodPtr>& pods, const Shortage& shortage) {
  const PressureSignal signal = shortage.threshold.signal;
  const auto sample = parts_.sample(IsOfTheDisk(signal));
  if (!sample) {
    parts_.log(StrCat("no pod is evicted for want of ", ResourceOf(signal),
                      ", since it is not known what pods have: ", sample.error().message()));
    return false;
  }
  for (const Candidate& candidate : RankForEviction(pods, **sample, signal)) {
    const core::Pod& pod = *candidate.pod;
    const std::string& uid = pod.metadata().uid();
    const bool ends = pod.metadata().has_deletiontimestamp() || evicted_.contains(uid);
    if (ends || kube::IsCriticalPod(pod)) continue;
    Eviction eviction = EvictionFor(candidate, shortage);
    eviction.grace = GraceFor(candidate.pod, shortage);
    parts_.log(StrCat("pod ", NameOf(pod), " is evicted: ", eviction.why));
    parts_.evict(PodUid(uid), eviction);
    evicted_.insert(uid);
    victim_ = {uid, parts_.clock.Boot()};
    return true;
  }
  parts_.log(StrCat("the node lacks ", ResourceOf(signal), ", and has no pod that it may evict"));
  return false;
}

// A hard one leaves a second, as by a kubelet, for which nobody has less.
std::chrono::seconds PressureWatch::GraceFor(const PodPtr& pod, const Shortage& shortage) const {
  constexpr std::chrono::seconds kLeast{1};
  if (!shortage.threshold.grace) return kLeast;
  const core::PodSpec& spec = pod->spec();
  std::chrono::seconds grace = parts_.config.max_pod_grace;
  if (spec.has_terminationgraceperiodseconds()) {
    grace = std::min(grace, std::chrono::seconds(spec.terminationgraceperiodseconds()));
  }
  return std::max(grace, kLeast);
}

}  // namespace holdfast::agent
