// SPDX-License-Identifier: Apache-2.0
// Pods of an API server in the table: what is reported, when, and what outlives what.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "agent/pod/execute/pod_table.h"
#include "agent/report/pod_reporter.h"
#include "agent/source/api_pods.h"
#include "tests/support/eventually.h"
#include "tests/support/full_disk.h"
#include "tests/unit/agent/pod/execute/table_fixture.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
using test_support::Eventually;

// Remembers what it was told, and what the disk said at that moment. Thread-safe.
class FakeReporter : public PodReporter {
 public:
  explicit FakeReporter(const model::Instance& instance) : instance_(instance) {}

  void Report(PodReport report) override {
    const std::string& uid = report.pod->metadata().uid();
    const std::string record = SavedRecord(instance_, uid);
    const std::lock_guard lock(mutex_);
    const std::string& phase = report.status->phase();
    const bool known = record.find("\"terminalPhase\": \"" + phase + "\"") != std::string::npos;
    if (phase == "Failed" || phase == "Succeeded") terminal_was_known_[uid] = known;
    newest_[uid] = std::move(report);
    ++count_[uid];
  }
  void Forget(const PodUid& uid) override {
    const std::lock_guard lock(mutex_);
    forgotten_.insert(uid.value);
  }

  std::string Phase(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    const auto it = newest_.find(uid);
    return it == newest_.end() ? "none" : it->second.status->phase();
  }
  PodReport Newest(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    return newest_[uid];
  }
  bool Released(const std::string& uid) { return Newest(uid).released; }
  bool TerminalWasKnown(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    return terminal_was_known_[uid];
  }
  size_t Count(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    return count_[uid];
  }
  bool Forgotten(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    return forgotten_.contains(uid);
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    newest_.clear();
  }

 private:
  const model::Instance& instance_;
  std::mutex mutex_;
  std::map<std::string, PodReport> newest_;
  std::map<std::string, size_t> count_;
  std::map<std::string, bool> terminal_was_known_;
  std::set<std::string> forgotten_;
};

class ApiPodTableTest : public PodTableTest {
 protected:
  void SetUp() override {
    PodTableTest::SetUp();
    source_.Set({});
    Start();
  }
  // Another agent on the same machine, which knows nothing of the API server yet.
  void Start() {
    node_.reset();
    reporter_.Clear();
    node_ = std::make_unique<Node>(
        instance_, runtime_, images_, network_, source_, clock_, options_, offer_,
        std::set<PodOrigin>{PodOrigin::kFile, PodOrigin::kApi}, &reporter_);
    api_ = std::make_unique<ApiPods>(
        node_->registry,
        ApiPodsCallbacks{.log = [](const std::string& line) { ADD_FAILURE() << line; }});
  }
  static kube::ObjectPtr Object(const corev1::Pod& pod) {
    kube::ObjectPtr object = kube::NewObject({"v1", "Pod"});
    object->CopyFrom(pod);
    return object;
  }
  void Put(const corev1::Pod& pod) { api_->Put(Object(pod)); }
  void Gone(const corev1::Pod& pod) { api_->Gone(Object(pod)); }
  void List(const std::vector<corev1::Pod>& pods) {
    api_->ListBegins();
    for (const corev1::Pod& pod : pods) Put(pod);
    api_->ListEnds();
  }
  static corev1::Pod Deleted(corev1::Pod pod, int64_t grace) {
    pod.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(4'000'000'000);
    pod.mutable_metadata()->set_deletiongraceperiodseconds(grace);
    pod.mutable_metadata()->set_generation(pod.metadata().generation() + 1);
    return pod;
  }
  static corev1::Pod Job(const std::string& uid) {
    corev1::Pod pod = MakePod(uid);
    pod.mutable_spec()->set_restartpolicy("Never");
    return pod;
  }
  bool Reported(const std::string& phase, const std::string& uid = "u1") {
    return Eventually([&] { return reporter_.Phase(uid) == phase; });
  }
  bool IsReleased(const std::string& uid = "u1") {
    return Eventually([&] { return reporter_.Released(uid); });
  }
  bool HasEvent(const std::string& reason) {
    const std::vector<std::string> reasons = EventReasons();
    return std::ranges::find(reasons, reason) != reasons.end();
  }

  FakeReporter reporter_{instance_};
  std::unique_ptr<ApiPods> api_;
};

TEST_F(ApiPodTableTest, APodRunsAndIsReported) {
  corev1::Pod pod = MakePod("u1");
  pod.mutable_metadata()->set_generation(1);
  List({pod});
  ASSERT_TRUE(Reported("Running"));
  const PodReport report = reporter_.Newest("u1");
  EXPECT_EQ(report.pod->metadata().name(), "web");
  EXPECT_EQ(report.status->observedgeneration(), 1);
  EXPECT_EQ(report.status->podip(), "10.88.0.2");
  EXPECT_FALSE(report.released);
  EXPECT_EQ(node_->Phase("web"), "Running");
}

TEST_F(ApiPodTableTest, ADeletionEndsItAndTheServerLetsItBeForgotten) {
  corev1::Pod pod = MakePod("u1");
  pod.mutable_metadata()->set_generation(1);
  List({pod});
  ASSERT_TRUE(Reported("Running"));
  Put(Deleted(pod, 5));
  ASSERT_TRUE(IsReleased());
  EXPECT_EQ(runtime_.signals(), std::vector<int>{SIGTERM}) << "at sight, not when the time is over";
  EXPECT_EQ(reporter_.Phase("u1"), "Failed");
  EXPECT_TRUE(reporter_.TerminalWasKnown("u1"));
  EXPECT_EQ(reporter_.Newest("u1").status->observedgeneration(), 2);
  EXPECT_EQ(runtime_.Count(), 0u);
  EXPECT_FALSE(fs::exists(instance_.PodFilesDir() + "/u1"));
  EXPECT_NE(SavedRecord(instance_, "u1"), "");
  EXPECT_FALSE(fs::is_empty(instance_.pod_log_dir));
  EXPECT_FALSE(reporter_.Forgotten("u1"));
  Gone(pod);
  ASSERT_TRUE(PhaseBecomes("gone"));
  EXPECT_TRUE(Eventually([&] { return reporter_.Forgotten("u1"); }));
  EXPECT_TRUE(fs::is_empty(instance_.PodsDir()));
  EXPECT_TRUE(fs::is_empty(instance_.pod_log_dir));
  EXPECT_TRUE(fs::is_empty(instance_.container_log_dir));
}

TEST_F(ApiPodTableTest, AShorterGraceShortensAndALongerOneDoesNot) {
  List({MakePod("u1")});
  ASSERT_TRUE(Reported("Running"));
  runtime_.ignore_signals = true;
  Put(Deleted(MakePod("u1"), 3600));
  ASSERT_TRUE(Eventually([&] { return !runtime_.signals().empty(); }));
  Put(Deleted(MakePod("u1"), 0));
  Put(Deleted(MakePod("u1"), 3600));
  EXPECT_TRUE(Reported("Failed"));
}

TEST_F(ApiPodTableTest, APodWhoseObjectVanishesEndsUnheard) {
  List({MakePod("u1")});
  ASSERT_TRUE(Reported("Running"));
  runtime_.ignore_signals = true;
  Gone(MakePod("u1"));
  ASSERT_TRUE(Eventually([&] { return !runtime_.signals().empty(); }));
  const size_t before = reporter_.Count("u1");
  EXPECT_TRUE(runtime_.Runs("app")) << "with its own grace period";
  runtime_.EndAll("app", 0);
  ASSERT_TRUE(PhaseBecomes("gone"));
  EXPECT_EQ(reporter_.Count("u1"), before);
  EXPECT_TRUE(fs::is_empty(instance_.PodsDir()));
}

TEST_F(ApiPodTableTest, AFinishedPodKeepsRecordAndLogsAndNeverRunsAgain) {
  List({Job("u1")});
  ASSERT_TRUE(Reported("Running"));
  runtime_.EndAll("app", 0);
  ASSERT_TRUE(IsReleased());
  EXPECT_EQ(reporter_.Phase("u1"), "Succeeded");
  EXPECT_TRUE(reporter_.TerminalWasKnown("u1"));
  EXPECT_NE(SavedRecord(instance_, "u1"), "");
  EXPECT_FALSE(fs::is_empty(instance_.pod_log_dir));
  Start();
  EXPECT_TRUE(IsReleased());
  EXPECT_EQ(reporter_.Phase("u1"), "Succeeded");
  List({Job("u1")});  // which has not heard of it
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(runtime_.StartCount(), 1u);
  Gone(Job("u1"));
  EXPECT_TRUE(PhaseBecomes("gone"));
}

TEST_F(ApiPodTableTest, AnEndThatCannotBeWrittenDownIsNotTold) {
  List({Job("u1")});
  ASSERT_TRUE(Reported("Running"));
  ASSERT_TRUE(Eventually([&] { return runtime_.Quiet(std::chrono::milliseconds(50)); }));
  {
    const test_support::FullDisk disk(fs::file_size(instance_.root_dir + "/pods.journal"));
    runtime_.EndAll("app", 0);
    ASSERT_TRUE(PhaseBecomes("Succeeded"));
    // That nothing is told has no event to wait for.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(reporter_.Phase("u1"), "Running");
  }
  corev1::Pod changed = Job("u1");
  (*changed.mutable_metadata()->mutable_labels())["look"] = "again";
  Put(changed);
  EXPECT_TRUE(Reported("Succeeded"));
  EXPECT_TRUE(reporter_.TerminalWasKnown("u1"));
}

TEST_F(ApiPodTableTest, WithoutAServerTheLastKnownPodsGoOn) {
  List({MakePod("u1")});
  ASSERT_TRUE(Reported("Running"));
  Start();
  source_.Set({});  // files have no say in it
  ASSERT_TRUE(Reported("Running"));
  EXPECT_EQ(runtime_.StartCount(), 1u);
  EXPECT_TRUE(runtime_.Runs("app"));
  // A reboot.
  node_.reset();
  ASSERT_TRUE(runtime_.RemoveSandbox(PodUid("u1")));
  ASSERT_TRUE(network_.Teardown(PodUid("u1")));
  Start();
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 2; }));
  ASSERT_TRUE(Reported("Running"));
  // Half a list changes nothing either.
  api_->ListBegins();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(runtime_.Runs("app"));
  api_->ListEnds();
  EXPECT_TRUE(PhaseBecomes("gone"));
}

TEST_F(ApiPodTableTest, WhatHasEndedOnTheServerTakesNoPlaceAndIsNotStarted) {
  offer_ = Offer("1");
  Start();
  corev1::Pod ended = MakePod("u1", "ended");
  ended.mutable_status()->set_phase("Failed");
  ended.mutable_status()->set_reason("Evicted");
  List({ended, MakePod("u2", "web")});
  ASSERT_TRUE(Reported("Running", "u2"));
  ASSERT_TRUE(IsReleased("u1"));
  EXPECT_EQ(reporter_.Newest("u1").status->reason(), "Evicted");
  EXPECT_EQ(runtime_.StartCount(), 1u);
  EXPECT_EQ(node_->Phase("ended"), "Failed");
}

TEST_F(ApiPodTableTest, RestartsAreCountedOnWhenTheRecordsAreLost) {
  corev1::Pod pod = MakePod("u1");
  pod.mutable_status()->set_phase("Running");
  corev1::ContainerStatus* status = pod.mutable_status()->add_containerstatuses();
  status->set_name("app");
  status->set_containerid("holdfast://former");
  status->set_restartcount(4);
  List({pod});
  ASSERT_TRUE(Reported("Running"));
  EXPECT_EQ(reporter_.Newest("u1").status->containerstatuses(0).restartcount(), 5);
}

TEST_F(ApiPodTableTest, ChangesAreTakenOverWhileItRuns) {
  images_.Add("busybox:2", "sha256:2");
  corev1::Pod pod = MakePod("u1");
  List({pod});
  ASSERT_TRUE(Reported("Running"));
  pod.mutable_metadata()->set_generation(2);
  (*pod.mutable_metadata()->mutable_labels())["tier"] = "web";
  // A field that no file's pod may change without being another one.
  (*pod.mutable_spec()->mutable_containers(0)->mutable_resources()->mutable_requests())["cpu"]
      .set_string("1");
  Put(pod);
  ASSERT_TRUE(Eventually([&] { return reporter_.Newest("u1").status->observedgeneration() == 2; }));
  EXPECT_EQ(reporter_.Newest("u1").pod->metadata().labels().at("tier"), "web");
  EXPECT_EQ(runtime_.StartCount(), 1u);
  EXPECT_TRUE(runtime_.signals().empty());
  pod.mutable_spec()->mutable_containers(0)->set_image("busybox:2");
  Put(pod);
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 2; }));
  EXPECT_EQ(runtime_.starts()[1].root_fs.layers.at(0), "/layers/sha256:2");
}

TEST_F(ApiPodTableTest, AReadinessGateOpensByWhatOthersSay) {
  corev1::Pod pod = MakePod("u1");
  pod.mutable_spec()->add_readinessgates()->set_conditiontype("gate.io/x");
  List({pod});
  ASSERT_TRUE(Reported("Running"));
  const auto ready = [&] {
    const PodReport newest = reporter_.Newest("u1");
    for (const auto& condition : newest.status->conditions()) {
      if (condition.type() == "Ready") return condition.status() == "True";
    }
    return false;
  };
  EXPECT_FALSE(ready());
  corev1::PodCondition* gate = pod.mutable_status()->add_conditions();
  gate->set_type("gate.io/x");
  gate->set_status("True");
  Put(pod);
  EXPECT_TRUE(Eventually(ready));
  // It stays so over a restart, before anything is heard of the server.
  Start();
  ASSERT_TRUE(Reported("Running"));
  EXPECT_TRUE(ready());
}

TEST_F(ApiPodTableTest, ASuccessorOfTheSameNameWaitsUntilTheFormerPodIsGone) {
  List({MakePod("u1")});
  ASSERT_TRUE(Reported("Running"));
  runtime_.ignore_signals = true;
  Put(MakePod("u2"));
  ASSERT_TRUE(Eventually([&] { return !runtime_.signals().empty(); }));
  EXPECT_EQ(runtime_.StartCount(), 1u);
  runtime_.EndAll("app", 0);
  EXPECT_TRUE(Reported("Running", "u2"));
  EXPECT_TRUE(Eventually([&] { return reporter_.Forgotten("u1"); }));
}

TEST_F(ApiPodTableTest, AStaticPodOfTheSameNameWins) {
  List({MakePod("u1")});
  ASSERT_TRUE(Reported("Running"));
  source_.Set({MakePod("f1")});
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 2; }));
  EXPECT_EQ(runtime_.starts()[1].pod_uid, PodUid("f1"));
  EXPECT_TRUE(HasEvent("FailedSync"));
  EXPECT_EQ(reporter_.Phase("u1"), "Failed") << "its end is told";
  EXPECT_FALSE(reporter_.Forgotten("u1")) << "and has to arrive";
  // The server has heard of that when the static pod goes.
  corev1::Pod ended = MakePod("u1");
  ended.mutable_status()->set_phase("Failed");
  Put(ended);
  source_.Set({});
  EXPECT_TRUE(PhaseBecomes("Failed"));
  EXPECT_EQ(runtime_.StartCount(), 2u);
}

TEST_F(ApiPodTableTest, APodWaitsForAStaticPodOfTheSameName) {
  source_.Set({MakePod("f1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  List({MakePod("u1")});
  ASSERT_TRUE(Eventually([&] { return HasEvent("FailedSync"); }));
  EXPECT_EQ(runtime_.StartCount(), 1u);
  EXPECT_TRUE(runtime_.signals().empty());
  source_.Set({});
  EXPECT_TRUE(Reported("Running"));
}

TEST_F(ApiPodTableTest, APodThatIsDeletedWhileItWaitsForItsNameEndsWithoutHavingBegun) {
  source_.Set({MakePod("f1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  List({MakePod("u1")});
  ASSERT_TRUE(Eventually([&] { return HasEvent("FailedSync"); }));
  Put(Deleted(MakePod("u1"), 30));
  EXPECT_TRUE(Reported("Failed"));
  EXPECT_TRUE(reporter_.Released("u1"));
  Gone(MakePod("u1"));
  source_.Set({});
  EXPECT_TRUE(Eventually([&] { return reporter_.Forgotten("f1"); }));
  EXPECT_EQ(runtime_.StartCount(), 1u) << "nor does it later";
}

TEST_F(ApiPodTableTest, APodThatIsDeletedWhileItGivesWayEndsForGood) {
  List({MakePod("u1")});
  ASSERT_TRUE(Reported("Running"));
  runtime_.ignore_signals = true;
  source_.Set({MakePod("f1")});
  ASSERT_TRUE(Eventually([&] { return !runtime_.signals().empty(); }));
  Put(Deleted(MakePod("u1"), 30));
  runtime_.EndAll("app", 0);
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 2; }));
  EXPECT_TRUE(Eventually([&] { return reporter_.Released("u1"); }));
}

TEST_F(ApiPodTableTest, AStaticPodIsReportedAsOneAndForgottenWithItsFile) {
  source_.Set({MakePod("f1")});
  ASSERT_TRUE(Reported("Running", "f1"));
  EXPECT_EQ(reporter_.Newest("f1").origin, PodOrigin::kFile);
  EXPECT_FALSE(reporter_.Released("f1"));
  source_.Set({});
  EXPECT_TRUE(Eventually([&] { return reporter_.Forgotten("f1"); }));
}

}  // namespace
}  // namespace holdfast::agent
