// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/pod_summary.h"

#include <algorithm>
#include <utility>

#include "agent/cli/durations.h"
#include "agent/cli/or_none.h"
#include "agent/kube/pod_status.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

// A restart count and when the last one was.
struct Restarts {
  int32_t count = 0;
  WallTime last;

  void Add(const core::ContainerStatus& status) {
    count += status.restartcount();
    if (!status.laststate().has_terminated()) return;
    last = std::max(last, kube::ToWallTime(status.laststate().terminated().finishedat()));
  }
};

// Being built up from the containers, in kubectl's order of precedence.
struct Builder {
  const core::Pod& pod;
  std::string reason;
  int ready = 0;
  int total = 0;
  Restarts restarts;
  Restarts sidecar_restarts;
};

bool IsSidecar(const core::Pod& pod, const std::string& init_container) {
  for (const auto& container : pod.spec().initcontainers()) {
    if (container.name() == init_container) return container.restartpolicy() == "Always";
  }
  return false;
}

// "Completed", or "ExitCode:3" and "Signal:9" where no reason was given.
std::string TerminatedReason(const core::ContainerStateTerminated& state) {
  if (!state.reason().empty()) return state.reason();
  if (state.signal() != 0) return StrCat("Signal:", state.signal());
  return StrCat("ExitCode:", state.exitcode());
}

// True: this init container is done, look at the next one.
bool PassInitContainer(Builder& b, int index, const core::ContainerStatus& status, bool sidecar) {
  const core::ContainerState& state = status.state();
  if (state.has_terminated() && state.terminated().exitcode() == 0) return true;
  if (sidecar && status.started()) {
    if (status.ready()) ++b.ready;
    return true;
  }
  if (state.has_terminated()) {
    b.reason = "Init:" + TerminatedReason(state.terminated());
  } else if (!state.waiting().reason().empty() && state.waiting().reason() != "PodInitializing") {
    b.reason = "Init:" + state.waiting().reason();
  } else {
    b.reason = StrCat("Init:", index, "/", b.pod.spec().initcontainers_size());
  }
  return false;
}

// True: some init container is not done yet.
bool AddInitContainers(Builder& b) {
  int index = 0;
  for (const auto& status : b.pod.status().initcontainerstatuses()) {
    const bool sidecar = IsSidecar(b.pod, status.name());
    b.restarts.Add(status);
    if (sidecar) b.sidecar_restarts.Add(status);
    if (!PassInitContainer(b, index++, status, sidecar)) return true;
  }
  return false;
}

void AddContainers(Builder& b) {
  b.restarts = b.sidecar_restarts;
  bool has_running = false;
  const auto& statuses = b.pod.status().containerstatuses();
  // From the last to the first: the first container's reason wins.
  for (auto status = statuses.rbegin(); status != statuses.rend(); ++status) {
    b.restarts.Add(*status);
    const core::ContainerState& state = status->state();
    if (!state.waiting().reason().empty()) {
      b.reason = state.waiting().reason();
    } else if (state.has_terminated()) {
      b.reason = TerminatedReason(state.terminated());
    } else if (status->ready() && state.has_running()) {
      has_running = true;
      ++b.ready;
    }
  }
  // One container has completed, another still runs.
  if (b.reason == "Completed" && has_running) {
    b.reason = HasCondition(b.pod, "Ready") ? "Running" : "NotReady";
  }
}

std::string FirstReason(const core::Pod& pod) {
  for (const auto& condition : pod.status().conditions()) {
    if (condition.type() == "PodScheduled" && condition.reason() == "SchedulingGated") {
      return "SchedulingGated";
    }
  }
  return pod.status().reason().empty() ? pod.status().phase() : pod.status().reason();
}

std::string ReadinessGates(const core::Pod& pod) {
  if (pod.spec().readinessgates_size() == 0) return "<none>";
  const auto met =
      std::count_if(pod.spec().readinessgates().begin(), pod.spec().readinessgates().end(),
                    [&](const auto& gate) { return HasCondition(pod, gate.conditiontype()); });
  return StrCat(met, "/", pod.spec().readinessgates_size());
}

}  // namespace

bool HasCondition(const core::Pod& pod, const std::string& type, const std::string& status) {
  for (const auto& condition : pod.status().conditions()) {
    if (condition.type() == type) return condition.status() == status;
  }
  return false;
}

PodSummary Summarize(const core::Pod& pod, WallTime now) {
  Builder b{.pod = pod,
            .reason = FirstReason(pod),
            .total = pod.spec().containers_size(),
            .restarts = {},
            .sidecar_restarts = {}};
  for (const auto& container : pod.spec().initcontainers()) {
    if (container.restartpolicy() == "Always") ++b.total;
  }
  const bool initializing = AddInitContainers(b);
  if (!initializing || HasCondition(pod, "Initialized")) AddContainers(b);

  const std::string& phase = pod.status().phase();
  if (pod.metadata().has_deletiontimestamp()) {
    if (pod.status().reason() == "NodeLost") {
      b.reason = "Unknown";
    } else if (!kube::IsTerminalPhase(phase)) {
      b.reason = "Terminating";
    }
  }
  std::string restarts = StrCat(b.restarts.count);
  if (b.restarts.count != 0 && !b.restarts.last.IsZero()) {
    restarts += StrCat(" (", Age(b.restarts.last, now), " ago)");
  }
  return PodSummary{.ready = StrCat(b.ready, "/", b.total),
                    .status = b.reason,
                    .restarts = std::move(restarts),
                    .age = Age(kube::ToWallTime(pod.metadata().creationtimestamp()), now),
                    .ip = OrNone(pod.status().podip()),
                    .node = OrNone(pod.spec().nodename()),
                    .nominated_node = OrNone(pod.status().nominatednodename()),
                    .readiness_gates = ReadinessGates(pod)};
}

}  // namespace holdfast::agent::cli
