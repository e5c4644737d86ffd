// SPDX-License-Identifier: Apache-2.0
// Probes and the postStart hook in a pod's decisions: what a container counts as, what is probed,
// and what goes because of it. Source: Kubernetes' prober_manager.go, kuberuntime_manager.go.
#include <algorithm>
#include <utility>

#include "agent/pod/decide/planning.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

void Fold(Current& run, const ProbeFact& fact) {
  const bool failed = fact.result == ProbeResult::kFailure;
  switch (fact.kind) {
    case ProbeKind::kStartup:
      run.startup_passed = fact.result == ProbeResult::kSuccess;
      if (failed) run.unhealthy = fact.kind;
      break;
    case ProbeKind::kReadiness:
      run.ready = fact.result == ProbeResult::kSuccess;
      break;
    case ProbeKind::kLiveness:
      if (failed) run.unhealthy = fact.kind;
      break;
  }
}

// "Container web failed liveness probe, will be restarted"
std::string WhyUnhealthy(const SpecContainer& c, ProbeKind kind, bool restarts) {
  return StrCat("Container ", c.name(), " failed ",
                kind == ProbeKind::kStartup ? "startup" : "liveness", " probe",
                restarts ? ", will be restarted" : "");
}

std::chrono::seconds ProbeGrace(const Planning& p, const SpecContainer& c, ProbeKind kind) {
  const corev1::Probe& probe =
      kind == ProbeKind::kStartup ? c.spec->startupprobe() : c.spec->livenessprobe();
  return probe.has_terminationgraceperiodseconds()
             ? std::chrono::seconds(probe.terminationgraceperiodseconds())
             : GracePeriod(p.pod);
}

void StopUnhealthy(Planning& p, const SpecContainer& c, ProbeKind kind) {
  ContainerMemory& mine = p.Memory(c);
  // However it takes the signal: what a kubelet kills for its probe it starts again, unless never.
  const bool restarts = RestartsAfter(p.pod, c, 137);
  if (restarts) mine.again = true;
  StopOne(p, c, {.why = WhyUnhealthy(c, kind, restarts), .grace = ProbeGrace(p, c, kind)});
}

// Where a probe dials that names no host.
std::string PodIp(const Planning& p) {
  const auto& ips = p.pod.spec().hostnetwork() ? p.facts.node->host_ips : p.memory.pod_ips;
  return ips.empty() ? "" : ips.front();
}

void Want(Planning& p, const SpecContainer& c, ProbeKind kind, ProbeResult known) {
  const Current& run = *p.Memory(c).current;
  p.decision.probes.push_back({c.name(), run.id, kind, run.started_at, PodIp(p), known});
}

}  // namespace

bool Runs(const SpecContainer& c, const ContainerMemory& mine) {
  return mine.current && (mine.current->post_started || !c.spec->lifecycle().has_poststart());
}

bool HasStarted(const SpecContainer& c, const ContainerMemory& mine) {
  return Runs(c, mine) && (mine.current->startup_passed || !c.spec->has_startupprobe());
}

bool IsReady(const SpecContainer& c, const ContainerMemory& mine) {
  if (c.role == Role::kInit) return !mine.current && mine.last && mine.last->exit_code == 0;
  return HasStarted(c, mine) && (mine.current->ready || !c.spec->has_readinessprobe());
}

void FoldProbes(Planning& p) {
  for (const SpecContainer& c : p.containers) {
    ContainerMemory& mine = p.Memory(c);
    if (!mine.current) continue;
    for (const ProbeFact& fact : p.facts.probes) {
      if (fact.id == mine.current->id) Fold(*mine.current, fact);
    }
  }
}

void NoteStartedSidecars(Planning& p) {
  for (const SpecContainer& c : p.containers) {
    if (c.role == Role::kSidecar && HasStarted(c, p.Memory(c))) p.Memory(c).init_done = true;
  }
}

void PlanUnhealthy(Planning& p) {
  for (const SpecContainer& c : p.containers) {
    const ContainerMemory& mine = p.Memory(c);
    if (!mine.current) continue;
    if (!mine.current->post_start_error.empty()) {
      StopOne(p, c, {.why = "FailedPostStartHook", .grace = GracePeriod(p.pod)});
    } else if (mine.current->unhealthy) {
      StopUnhealthy(p, c, *mine.current->unhealthy);
    }
  }
}

// While the pod ends its readiness is still asked for, nothing else.
void WantProbes(Planning& p) {
  for (const SpecContainer& c : p.containers) {
    const ContainerMemory& mine = p.Memory(c);
    if (c.role == Role::kInit || !Runs(c, mine)) continue;
    const bool dies = p.memory.ending || mine.current->unhealthy;
    if (!HasStarted(c, mine)) {
      if (!dies) Want(p, c, ProbeKind::kStartup, ProbeResult::kUnknown);
      continue;
    }
    if (c.spec->has_readinessprobe()) {
      Want(p, c, ProbeKind::kReadiness,
           mine.current->ready ? ProbeResult::kSuccess : ProbeResult::kFailure);
    }
    if (c.spec->has_livenessprobe() && !dies) {
      Want(p, c, ProbeKind::kLiveness, ProbeResult::kSuccess);
    }
  }
}

}  // namespace holdfast::agent
