// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/probe_state.h"

#include <algorithm>
#include <string>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using How = CheckOutcome::How;

ProbeResult InitialResult(ProbeKind kind) {
  switch (kind) {
    case ProbeKind::kStartup:
      return ProbeResult::kUnknown;
    case ProbeKind::kReadiness:
      return ProbeResult::kFailure;
    case ProbeKind::kLiveness:
      return ProbeResult::kSuccess;
  }
  return ProbeResult::kUnknown;
}

std::optional<EventNote> NoteOf(ProbeKind kind, const CheckOutcome& outcome) {
  const char* name = ToString(kind);
  switch (outcome.how) {
    case How::kSuccess:
      return std::nullopt;
    case How::kWarning:
      return EventNote{true, "ProbeWarning", StrCat(name, " probe warning: ", outcome.text), "",
                       false};
    case How::kFailure:
      return EventNote{true, "Unhealthy", StrCat(name, " probe failed: ", outcome.text), "", false};
    case How::kError:
      return EventNote{true, "Unhealthy",
                       StrCat(name, " probe errored and resulted in unknown state: ", outcome.text),
                       "", false};
  }
  return std::nullopt;
}

// It has said all: the container is killed for it, or has started for good.
bool IsLast(const ProbeState& state) {
  return state.kind == ProbeKind::kStartup ||
         (state.kind == ProbeKind::kLiveness && state.result == ProbeResult::kFailure);
}

}  // namespace

const char* ToString(ProbeKind kind) {
  switch (kind) {
    case ProbeKind::kStartup:
      return "Startup";
    case ProbeKind::kReadiness:
      return "Readiness";
    case ProbeKind::kLiveness:
      return "Liveness";
  }
  return "?";
}

ProbeState BeginProbe(ProbeKind kind, ProbeResult known) {
  ProbeState state{.kind = kind};
  state.result = known == ProbeResult::kUnknown ? InitialResult(kind) : known;
  return state;
}

std::optional<EventNote> CountOutcome(ProbeState& state, const k8s::io::api::core::v1::Probe& probe,
                                      const CheckOutcome& outcome) {
  auto note = NoteOf(state.kind, outcome);
  if (outcome.how == How::kError) return note;
  const auto result = outcome.how == How::kFailure ? ProbeResult::kFailure : ProbeResult::kSuccess;
  state.run = result == state.last ? state.run + 1 : 1;
  state.last = result;
  const int threshold =
      result == ProbeResult::kFailure ? probe.failurethreshold() : probe.successthreshold();
  if (state.run < threshold) return note;
  state.result = result;
  state.over = IsLast(state);
  return note;
}

BootTime FirstDue(const k8s::io::api::core::v1::Probe& probe, WallTime container_started,
                  const ProbeMoment& now) {
  const std::chrono::nanoseconds delay = std::chrono::seconds(probe.initialdelayseconds());
  const std::chrono::nanoseconds period = std::chrono::seconds(probe.periodseconds());
  const auto left =
      std::clamp(delay - (now.wall - container_started), std::chrono::nanoseconds(0), delay);
  const bool found = container_started < now.agent_started;
  if (!found || now.wall - now.agent_started >= period) return now.boot + left;
  const auto wait = std::chrono::nanoseconds(
      static_cast<int64_t>(static_cast<double>(period.count()) * now.random));
  return now.boot + std::max(left, wait);
}

BootTime NextDue(const k8s::io::api::core::v1::Probe& probe, BootTime due, BootTime now) {
  return std::max(due + std::chrono::seconds(probe.periodseconds()), now);
}

}  // namespace holdfast::agent
