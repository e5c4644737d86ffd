// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/best_pod.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <tuple>

#include "agent/kube/times.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

// The less, the better. To attach, who runs no more is the worst; for logs he is as good as who runs.
int PhaseRank(const std::string& phase, PodUse use) {
  if (phase == "Running") return 0;
  if (phase == "Unknown") return 1;
  if (phase == "Pending") return 2;
  return use == PodUse::kLogs ? 0 : 2;
}

WallTime OrNever(WallTime time) {
  return time == WallTime() ? WallTime{std::chrono::nanoseconds::max()} : time;
}

// Since when it is ready; absent when it is not.
std::optional<WallTime> ReadySince(const core::Pod& pod) {
  for (const auto& condition : pod.status().conditions()) {
    if (condition.type() != "Ready" || condition.status() != "True") continue;
    return OrNever(kube::ToWallTime(condition.lasttransitiontime()));
  }
  return std::nullopt;
}

int MostRestarts(const core::Pod& pod) {
  int most = 0;
  for (const auto& status : pod.status().containerstatuses()) {
    most = std::max(most, static_cast<int>(status.restartcount()));
  }
  return most;
}

}  // namespace

const core::Pod* BestPod(const std::vector<core::Pod>& pods, PodUse use) {
  const auto worth = [use](const core::Pod& pod) {
    const auto ready = ReadySince(pod);
    const int restarts = MostRestarts(pod);
    return std::tuple(PhaseRank(pod.status().phase(), use), !ready, ready.value_or(WallTime()),
                      use == PodUse::kLogs ? -restarts : restarts,
                      OrNever(kube::ToWallTime(pod.metadata().creationtimestamp())));
  };
  const auto best = std::min_element(
      pods.begin(), pods.end(), [&](const auto& a, const auto& b) { return worth(a) < worth(b); });
  return best == pods.end() ? nullptr : &*best;
}

bool IsOwnedBy(const core::Pod& pod, std::string_view kind, const std::string& name) {
  const auto& labels = pod.metadata().labels();
  for (const auto& owner : pod.metadata().ownerreferences()) {
    if (owner.kind() == kind && owner.name() == name) return true;
    const auto hash = labels.find("pod-template-hash");
    if (kind == "Deployment" && owner.kind() == "ReplicaSet" && hash != labels.end() &&
        owner.name() == StrCat(name, "-", hash->second)) {
      return true;
    }
  }
  return false;
}

}  // namespace holdfast::agent::cli
