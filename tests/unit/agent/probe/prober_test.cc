// SPDX-License-Identifier: Apache-2.0
// The prober with real programs: what it tells, what it keeps, what it gives up.
#include "agent/probe/prober.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

#include "holdfast/base/strings.h"
#include "tests/fakes/fake_exec_runtime.h"
#include "tests/support/eventually.h"
#include "tests/support/metrics_fault.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;
using enum ProbeKind;
using Pod = k8s::io::api::core::v1::Pod;

class ProberTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "prober-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir_ = name;
    Make();
  }
  void TearDown() override {
    prober_.reset();
    std::filesystem::remove_all(dir_);
  }
  void Make() {
    auto prober = Prober::Start(
        runtime_, clock_, {[this](const Pod&, const EventNote& note) {
          const std::lock_guard lock(mutex_);
          events_.push_back(StrCat(note.container, ": ", note.reason, ": ", note.message));
        }});
    ASSERT_TRUE(prober);
    prober_ = std::move(*prober);
    prober_->SetListener([this](const PodUid&) { ++pokes_; });
  }

  // Ready while the file is there.
  std::shared_ptr<const Pod> MakePod(const std::string& more = "") {
    auto pod = std::make_shared<Pod>();
    pod->mutable_metadata()->set_uid("u1");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        StrCat(R"(containers { name: "web" readinessProbe { handler { exec { command: "test"
                  command: "-e" command: ")",
               Flag(), R"(" } } periodSeconds: 1 timeoutSeconds: 5
                  successThreshold: 1 failureThreshold: 2 } )",
               more, " }"),
        pod->mutable_spec()));
    return pod;
  }
  std::string Flag() const { return (dir_ / "flag").string(); }
  void SetFlag() { std::ofstream(Flag()) << "x"; }
  WantedProbe Wanted(ProbeKind kind, ProbeResult known = ProbeResult::kUnknown) {
    return {"web", runtime_.container, kind, clock_.Wall(), "127.0.0.1", known};
  }
  std::optional<ProbeResult> Result(ProbeKind kind) {
    for (const ProbeFact& fact : prober_->FactsOf(PodUid("u1"))) {
      if (fact.kind == kind) return fact.result;
    }
    return std::nullopt;
  }
  std::vector<std::string> Events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }

  SystemClock clock_;
  FakeExecRuntime runtime_;
  std::filesystem::path dir_;
  std::atomic<int> pokes_{0};
  std::mutex mutex_;
  std::vector<std::string> events_;
  std::unique_ptr<Prober> prober_;
};

TEST_F(ProberTest, TellsChangesAndNothingElse) {
  prober_->Want(MakePod(), {Wanted(kReadiness)});
  EXPECT_TRUE(Eventually([&] { return !Events().empty(); }));
  EXPECT_EQ(Events().at(0), "web: Unhealthy: Readiness probe failed: ");
  EXPECT_EQ(Result(kReadiness), std::nullopt) << "it was not ready before either";
  SetFlag();
  EXPECT_TRUE(Eventually([&] { return Result(kReadiness) == ProbeResult::kSuccess; }));
  std::filesystem::remove(Flag());
  EXPECT_TRUE(Eventually([&] { return Result(kReadiness) == ProbeResult::kFailure; }));
  EXPECT_EQ(pokes_, 2);
}

TEST_F(ProberTest, CountsResultsOverRestartsUntilThePodIsGone) {
  SetFlag();
  const auto pod = MakePod();
  const auto has = [&](const std::string& line) {
    return Eventually([&] { return prober_->MetricsText().find(line) != std::string::npos; });
  };
  const std::string names = R"({container="web",namespace="",pod="",)";
  EXPECT_EQ(prober_->MetricsText(), "");
  prober_->Want(pod, {Wanted(kReadiness)});
  EXPECT_TRUE(has("prober_probe_total" + names +
                  R"(pod_uid="u1",probe_type="Readiness",result="successful"} 1)"));
  std::filesystem::remove(Flag());
  EXPECT_TRUE(has(R"(result="failed"} 1)")) << prober_->MetricsText();
  EXPECT_TRUE(has(R"(prober_probe_duration_seconds_bucket{container="web",namespace="",pod="",)"
                  R"(probe_type="Readiness",le="10"})"));
  prober_->Want(pod, {});  // it starts again
  EXPECT_TRUE(has(R"(result="failed"})"));
  EXPECT_EQ(test_support::MetricsFault(prober_->MetricsText()), "");
  prober_->Forget(pod);
  EXPECT_TRUE(Eventually([&] { return prober_->MetricsText().empty(); }));
}

TEST_F(ProberTest, WhatIsKnownStandsUntilAThresholdIsReached) {
  prober_->Want(MakePod(), {Wanted(kReadiness, ProbeResult::kSuccess)});
  EXPECT_TRUE(Eventually([&] { return Events().size() == 1; }));
  EXPECT_EQ(Result(kReadiness), std::nullopt) << "one failure of two";
  EXPECT_TRUE(Eventually([&] { return Result(kReadiness) == ProbeResult::kFailure; }));
  EXPECT_EQ(Events().size(), 2u);
}

TEST_F(ProberTest, WhatIsNotWantedAnyMoreIsGivenUp) {
  const auto pod =
      MakePod(StrCat(R"(startupProbe { handler { exec { command: "sh" command: "-c"
      command: "echo $$$$ > )",
                     (dir_ / "pid").string(), R"(; exec sleep 1000" } } periodSeconds: 1
      timeoutSeconds: 1000 failureThreshold: 1 })"));
  prober_->Want(pod, {Wanted(kStartup)});
  pid_t pid = 0;
  ASSERT_TRUE(Eventually([&] { return bool(std::ifstream(dir_ / "pid") >> pid); }));
  prober_->Want(pod, {});
  EXPECT_TRUE(Eventually([&] { return ::kill(pid, 0) != 0; }));
  EXPECT_TRUE(Events().empty());
  EXPECT_TRUE(prober_->FactsOf(PodUid("u1")).empty());
}

TEST_F(ProberTest, AProbeThatHasSaidAllIsNotRunAgain) {
  const auto count = dir_ / "count";
  const auto pod =
      MakePod(StrCat(R"(livenessProbe { handler { exec { command: "sh" command: "-c"
      command: "echo x >> )",
                     count.string(), R"(; exit 1" } } periodSeconds: 1 timeoutSeconds: 5
      failureThreshold: 1 })"));
  prober_->Want(pod, {Wanted(kLiveness)});
  EXPECT_TRUE(Eventually([&] { return Result(kLiveness) == ProbeResult::kFailure; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // two more periods
  EXPECT_EQ(std::filesystem::file_size(count), 2u) << "\"x\" and a line's end";
}

TEST_F(ProberTest, WhatCannotBeTriedIsTriedThreeTimesAndToldOnce) {
  auto wanted = Wanted(kReadiness, ProbeResult::kSuccess);
  wanted.id = ContainerId("gone");
  prober_->Want(MakePod(), {wanted});
  EXPECT_TRUE(Eventually([&] { return !Events().empty(); }));
  EXPECT_EQ(
      Events().at(0),
      "web: Unhealthy: Readiness probe errored and resulted in unknown state: container gone");
  EXPECT_EQ(Events().size(), 1u);
  EXPECT_EQ(Result(kReadiness), std::nullopt);
}

TEST_F(ProberTest, EndsWithThousandsOfProbes) {
  for (int i = 0; i < 3000; ++i) {
    auto pod = std::make_shared<Pod>(*MakePod());
    pod->mutable_metadata()->set_uid(StrCat("u", i));
    auto* probe = pod->mutable_spec()->mutable_containers(0)->mutable_readinessprobe();
    probe->mutable_handler()->mutable_tcpsocket()->mutable_port()->set_intval(1);
    probe->mutable_handler()->clear_exec();
    prober_->Want(pod, {Wanted(kReadiness)});
  }
  EXPECT_TRUE(Eventually([&] { return Events().size() >= 6000; }));
  prober_.reset();
}

}  // namespace
}  // namespace holdfast::agent
