// SPDX-License-Identifier: Apache-2.0
// Thresholds, events and the schedule of one probe, as tables.
#include "agent/probe/probe_state.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using enum CheckOutcome::How;
using Spec = k8s::io::api::core::v1::Probe;

Spec MakeSpec(int success, int failure, int period = 10, int delay = 0) {
  Spec spec;
  spec.set_successthreshold(success);
  spec.set_failurethreshold(failure);
  spec.set_periodseconds(period);
  spec.set_initialdelayseconds(delay);
  return spec;
}

// "s" success, "w" warning, "f" failure, "e" error; what it counts as after each: "s", "f", "u".
std::string Results(ProbeKind kind, const Spec& spec, const std::string& outcomes,
                    ProbeResult known = ProbeResult::kUnknown) {
  ProbeState state = BeginProbe(kind, known);
  std::string out;
  for (const char c : outcomes) {
    const auto how = c == 's' ? kSuccess : c == 'w' ? kWarning : c == 'f' ? kFailure : kError;
    (void)CountOutcome(state, spec, {how, "x"});
    out += state.result == ProbeResult::kSuccess   ? 's'
           : state.result == ProbeResult::kFailure ? 'f'
                                                   : 'u';
    if (state.over) return out + "!";
  }
  return out;
}

TEST(ProbeStateTest, ResultsChangeAtTheirThresholds) {
  const struct {
    ProbeKind kind;
    int success, failure;
    const char* outcomes;
    const char* results;
  } cases[] = {
      {ProbeKind::kReadiness, 1, 3, "sffsfff", "ssssssf"},
      {ProbeKind::kReadiness, 2, 1, "ssfss", "fsffs"},
      {ProbeKind::kReadiness, 1, 3, "sffe", "ssss"},    // an error is thrown away …
      {ProbeKind::kReadiness, 1, 3, "sfeff", "ssssf"},  // … and interrupts nothing
      {ProbeKind::kReadiness, 1, 1, "wf", "sf"},
      {ProbeKind::kLiveness, 1, 3, "ffsfff", "sssssf!"},
      {ProbeKind::kLiveness, 1, 1, "f", "f!"},
      {ProbeKind::kStartup, 1, 3, "ffs", "uus!"},
      {ProbeKind::kStartup, 1, 2, "ff", "uf!"},
      {ProbeKind::kStartup, 1, 2, "eee", "uuu"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Results(c.kind, MakeSpec(c.success, c.failure), c.outcomes), c.results) << c.outcomes;
  }
}

TEST(ProbeStateTest, GoesOnFromWhatIsKnown) {
  EXPECT_EQ(Results(ProbeKind::kReadiness, MakeSpec(1, 3), "ff", ProbeResult::kSuccess), "ss");
  EXPECT_EQ(Results(ProbeKind::kReadiness, MakeSpec(2, 3), "s", ProbeResult::kFailure), "f");
}

TEST(ProbeStateTest, TellsInAKubeletsWords) {
  const struct {
    ProbeKind kind;
    CheckOutcome::How how;
    const char* event;
  } cases[] = {
      {ProbeKind::kReadiness, kSuccess, ""},
      {ProbeKind::kReadiness, kFailure, "Unhealthy: Readiness probe failed: why"},
      {ProbeKind::kLiveness, kFailure, "Unhealthy: Liveness probe failed: why"},
      {ProbeKind::kStartup, kFailure, "Unhealthy: Startup probe failed: why"},
      {ProbeKind::kLiveness, kWarning, "ProbeWarning: Liveness probe warning: why"},
      {ProbeKind::kStartup, kError,
       "Unhealthy: Startup probe errored and resulted in unknown state: why"},
  };
  for (const auto& c : cases) {
    ProbeState state = BeginProbe(c.kind, ProbeResult::kUnknown);
    const auto note = CountOutcome(state, MakeSpec(1, 3), {c.how, "why"});
    EXPECT_EQ(note ? note->reason + ": " + note->message : "", c.event);
    EXPECT_TRUE(!note || note->warning);
  }
}

ProbeMoment At(int wall, int agent_started, double random = 0.5) {
  return {{seconds(wall)}, {seconds(1000)}, {seconds(agent_started)}, random};
}

TEST(ProbeStateTest, TheFirstIsDueAfterTheInitialDelay) {
  const BootTime now{seconds(1000)};
  EXPECT_EQ(FirstDue(MakeSpec(1, 3), {seconds(500)}, At(500, 100)), now);
  EXPECT_EQ(FirstDue(MakeSpec(1, 3, 10, 7), {seconds(500)}, At(502, 100)), now + seconds(5));
  EXPECT_EQ(FirstDue(MakeSpec(1, 3, 10, 7), {seconds(500)}, At(600, 100)), now);
  EXPECT_EQ(FirstDue(MakeSpec(1, 3, 10, 7), {seconds(500)}, At(400, 100)), now + seconds(7))
      << "the clock was set back";
}

TEST(ProbeStateTest, WhatAnAgentFindsWaitsARandomPartOfThePeriod) {
  const BootTime now{seconds(1000)};
  EXPECT_EQ(FirstDue(MakeSpec(1, 3), {seconds(50)}, At(101, 100)), now + seconds(5));
  EXPECT_EQ(FirstDue(MakeSpec(1, 3), {seconds(50)}, At(101, 100, 0)), now);
  EXPECT_EQ(FirstDue(MakeSpec(1, 3, 10, 60), {seconds(50)}, At(101, 100)), now + seconds(9));
  EXPECT_EQ(FirstDue(MakeSpec(1, 3), {seconds(50)}, At(110, 100)), now) << "not long after";
  EXPECT_EQ(FirstDue(MakeSpec(1, 3), {seconds(101)}, At(101, 100)), now) << "nor of a new one";
}

TEST(ProbeStateTest, TheNextKeepsThePaceUnlessTheLastTookTooLong) {
  const BootTime due{seconds(1000)};
  EXPECT_EQ(NextDue(MakeSpec(1, 3), due, due + milliseconds(300)), due + seconds(10));
  EXPECT_EQ(NextDue(MakeSpec(1, 3, 1), due, due + seconds(3)), due + seconds(3));
}

}  // namespace
}  // namespace holdfast::agent
