// SPDX-License-Identifier: Apache-2.0
// The table with its workers and real state files, around a make-believe runtime.
#include "agent/pod/execute/pod_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "agent/pod/state/record.h"
#include "holdfast/base/strings.h"
#include "tests/support/eventually.h"
#include "tests/unit/agent/pod/execute/table_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;

TEST_F(PodTableTest, RunsAPodAndTakesItAwayWithoutATrace) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  ASSERT_TRUE(Eventually([&] { return EventReasons().size() == 3; }));
  EXPECT_EQ(EventReasons(), (std::vector<std::string>{"Pulled", "Created", "Started"}));
  EXPECT_TRUE(std::filesystem::exists(instance_.PodFilesDir() + "/u1/etc-hosts"));
  source_.Set({});
  ASSERT_TRUE(PhaseBecomes("gone"));
  EXPECT_EQ(runtime_.signals(), std::vector<int>{SIGTERM});
  EXPECT_EQ(runtime_.Count(), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(instance_.PodsDir()));
  EXPECT_TRUE(std::filesystem::is_empty(instance_.pod_log_dir));
  EXPECT_TRUE(std::filesystem::is_empty(instance_.container_log_dir));
}

TEST_F(PodTableTest, APodThatTheNodeDoesNotTakeEndsAndIsNeverTriedAgain) {
  offer_ = Offer("1");
  Boot();
  source_.Set({MakePod("u1", "a"), MakePod("u2", "b")});
  ASSERT_TRUE(PhaseBecomes("Running", "a"));
  ASSERT_TRUE(PhaseBecomes("Failed", "b"));
  const auto shown = [&] { return node_->view.ListPods().at(1)->status(); };
  const std::string why =
      "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1";
  EXPECT_EQ(shown().reason(), "OutOfpods");
  EXPECT_EQ(shown().message(), "Pod was rejected: " + why);
  EXPECT_EQ(shown().containerstatuses_size() + shown().conditions_size(), 0);
  ASSERT_TRUE(Eventually([&] { return EventReasons().size() == 4; }));
  const auto events = node_->view.ListEvents();
  const auto refusal = std::find_if(events.begin(), events.end(), [](const EventPtr& event) {
    return event->reason() == "OutOfpods";
  });
  ASSERT_NE(refusal, events.end());
  EXPECT_EQ((*refusal)->message(), why);
  // Neither the next agent, nor one with more room; and it takes no place.
  offer_ = Offer("2");
  Boot();
  ASSERT_TRUE(PhaseBecomes("Failed", "b"));
  EXPECT_EQ(shown().reason(), "OutOfpods");
  source_.Set({MakePod("u1", "a"), MakePod("u2", "b"), MakePod("u3", "c")});
  EXPECT_TRUE(PhaseBecomes("Running", "c"));
  EXPECT_EQ(node_->Phase("b"), "Failed");
  source_.Set({MakePod("u1", "a"), MakePod("u3", "c")});
  EXPECT_TRUE(PhaseBecomes("gone", "b"));
}

TEST_F(PodTableTest, AnEphemeralContainerStaysOverChangesOfTheManifestsAndRestarts) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  corev1::EphemeralContainer added;
  added.mutable_ephemeralcontainercommon()->set_name("look");
  added.mutable_ephemeralcontainercommon()->set_image(MakePod("u1").spec().containers(0).image());
  const auto wanted = node_->table.AddEphemeralContainer(PodUid("u1"), added);
  ASSERT_TRUE(wanted) << wanted.error().message();
  EXPECT_EQ((*wanted)->spec().ephemeralcontainers_size(), 1);
  const auto runs = [&] {
    const auto pods = node_->view.ListPods();
    return pods.size() == 1 && pods[0]->spec().ephemeralcontainers_size() == 1 &&
           pods[0]->status().ephemeralcontainerstatuses_size() == 1 &&
           pods[0]->status().ephemeralcontainerstatuses(0).state().has_running();
  };
  EXPECT_TRUE(Eventually(runs));
  const size_t containers = runtime_.Count();
  source_.Set({MakePod("u1")});  // read once more
  Boot();
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  EXPECT_TRUE(Eventually(runs));
  EXPECT_EQ(runtime_.Count(), containers);
  const auto again = node_->table.AddEphemeralContainer(PodUid("u1"), added);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Code::kAlreadyExists);
  EXPECT_FALSE(node_->table.AddEphemeralContainer(PodUid("u2"), added));
  source_.Set({});
  EXPECT_TRUE(PhaseBecomes("gone"));
  EXPECT_EQ(runtime_.Count(), 0u);
}

TEST_F(PodTableTest, PodsThatRunAreNotAskedAgainAndKeepTheirPlaces) {
  source_.Set({MakePod("u1", "a"), MakePod("u2", "b")});
  ASSERT_TRUE(PhaseBecomes("Running", "a") && PhaseBecomes("Running", "b"));
  offer_ = Offer("2");
  offer_.allowed_unsafe_sysctls = {};
  Boot();
  source_.Set({MakePod("u1", "a"), MakePod("u2", "b"), MakePod("u3", "c")});
  EXPECT_TRUE(PhaseBecomes("Failed", "c"));
  EXPECT_EQ(node_->Phase("a"), "Running");
  EXPECT_EQ(node_->Phase("b"), "Running");
  EXPECT_TRUE(runtime_.signals().empty());
}

TEST_F(PodTableTest, APodThatIsToGoOrHasEndedGivesUpItsPlace) {
  offer_ = Offer("1");
  Boot();
  source_.Set({MakePod("u1", "a")});
  ASSERT_TRUE(PhaseBecomes("Running", "a"));
  runtime_.ignore_signals = true;
  source_.Set({MakePod("u2", "b")});
  EXPECT_TRUE(PhaseBecomes("Running", "b"));
  EXPECT_EQ(node_->Phase("a"), "Running") << "it still ends";
  Boot();
  source_.Set({MakePod("u2", "b"), MakePod("u3", "c")});
  EXPECT_TRUE(PhaseBecomes("Failed", "c")) << "the place is b's";
  runtime_.ignore_signals = false;
  corev1::Pod once = MakePod("u4", "d");
  once.mutable_spec()->set_restartpolicy("Never");
  source_.Set({once});
  ASSERT_TRUE(PhaseBecomes("Running", "d"));
  runtime_.EndAll("app", 0);
  ASSERT_TRUE(PhaseBecomes("Succeeded", "d"));
  source_.Set({once, MakePod("u5", "e")});
  EXPECT_TRUE(PhaseBecomes("Running", "e"));
}

TEST_F(PodTableTest, WhatAPodAsksForAndDoesNotGetIsTold) {
  corev1::Pod pod = MakePod("u1");
  pod.mutable_spec()->set_serviceaccountname("robot");
  source_.Set({pod});
  ASSERT_TRUE(PhaseBecomes("Running"));
  EXPECT_TRUE(Eventually([&] {
    const auto reasons = EventReasons();
    return std::find(reasons.begin(), reasons.end(), "FieldNotHonoured") != reasons.end();
  }));
}

TEST_F(PodTableTest, AClassOfRuntimeThatIsNotThereKeepsThePodFromStarting) {
  corev1::Pod pod = MakePod("u1");
  pod.mutable_spec()->set_runtimeclassname("gvisor");
  source_.Set({pod});
  // Those about the image may come first.
  ASSERT_TRUE(Eventually([&] {
    const auto reasons = EventReasons();
    return !reasons.empty() && reasons.back() == "FailedCreatePodSandBox";
  }));
  const EventPtr event = node_->view.ListEvents().back();
  EXPECT_EQ(event->message(),
            "Failed to create pod sandbox: runtimeclass.node.k8s.io \"gvisor\" not found");
  EXPECT_EQ(runtime_.Count(), 0u);
  EXPECT_EQ(node_->Phase("web"), "Pending");
}

TEST_F(PodTableTest, AFullNameThatNoKernelTakesKeepsThePodFromStarting) {
  corev1::Pod pod = MakePod("u1");
  pod.mutable_spec()->set_subdomain(std::string(50, 's'));
  pod.mutable_spec()->set_sethostnameasfqdn(true);
  source_.Set({pod});
  ASSERT_TRUE(Eventually([&] {
    const auto reasons = EventReasons();
    return !reasons.empty() && reasons.back() == "FailedCreatePodSandBox";
  }));
  EXPECT_EQ(node_->view.ListEvents().back()->message(),
            "Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster "
            "domain, FQDN web." +
                std::string(50, 's') +
                ".default.svc. is too long (64 characters is the max, 67 characters requested)");
  EXPECT_EQ(runtime_.Count(), 0u);
}

TEST_F(PodTableTest, APodWithTheLongestNameRunsAndGoesWithoutATrace) {
  const std::string name(253, 'l');
  source_.Set({MakePod("0123456789abcdef0123456789abcdef", name)});
  ASSERT_TRUE(PhaseBecomes("Running", name));
  ASSERT_TRUE(Eventually([&] { return !std::filesystem::is_empty(instance_.container_log_dir); }));
  source_.Set({});
  ASSERT_TRUE(PhaseBecomes("gone", name));
  EXPECT_TRUE(std::filesystem::is_empty(instance_.pod_log_dir));
  EXPECT_TRUE(std::filesystem::is_empty(instance_.container_log_dir));
}

TEST_F(PodTableTest, ARemovalThatFailsIsTriedAgainAfterAWhileOnly) {
  runtime_.sandbox_error = "no namespaces";
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(Eventually([&] { return !node_->view.ListEvents().empty(); }));
  // Nobody can remove the log directory: the way to it has no end.
  std::filesystem::create_directories(top_ + "/log");
  std::filesystem::create_symlink("pods", instance_.pod_log_dir);
  source_.Set({});
  const auto tries = [&] {
    const std::lock_guard lock(node_->log_mutex);
    return std::count_if(node_->log.begin(), node_->log.end(), [](const std::string& line) {
      return line.find("clean up") != std::string::npos;
    });
  };
  ASSERT_TRUE(Eventually([&] { return tries() > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(tries(), 1);
  std::filesystem::remove(instance_.pod_log_dir);
}

TEST_F(PodTableTest, NothingIsDeletedBeforeTheSourceWasRead) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  FakeSource unread;
  node_.reset();
  Node other(instance_, runtime_, images_, network_, unread, clock_);
  ASSERT_TRUE(Eventually([&] { return other.Phase("web") == "Running"; }));
  EXPECT_TRUE(runtime_.signals().empty());
}

TEST_F(PodTableTest, AnExitIsFollowedByARestart) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  runtime_.EndAll("app", 1);
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 2; }));
  ASSERT_TRUE(Eventually([&] {
    const auto pods = node_->view.ListPods();
    return pods[0]->status().containerstatuses(0).restartcount() == 1;
  }));
  EXPECT_EQ(runtime_.starts()[1].attempt, 1u);
}

TEST_F(PodTableTest, AContainerWhoseLogCannotBeMadeDoesNotRun) {
  std::filesystem::create_directories(instance_.pod_log_dir + "/default_web_u1/app/0.log");
  source_.Set({MakePod("u1")});
  const auto waiting = [&] {
    const auto pods = node_->view.ListPods();
    return pods.empty() || pods[0]->status().containerstatuses().empty()
               ? corev1::ContainerStateWaiting()
               : pods[0]->status().containerstatuses(0).state().waiting();
  };
  ASSERT_TRUE(Eventually([&] { return waiting().reason() == "CreateContainerError"; }));
  EXPECT_EQ(waiting().message(), "make log file 0.log: is a directory");
  EXPECT_EQ(runtime_.StartCount(), 0u);
}

// However many others there are.
TEST_F(PodTableTest, AnExitAsksTheRuntimeForItsPodOnly) {
  std::vector<corev1::Pod> pods;
  for (int i = 0; i < 30; ++i) pods.push_back(MakePod(StrCat("u", i), StrCat("web", i)));
  source_.Set(pods);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(PhaseBecomes("Running", StrCat("web", i)));
  ASSERT_TRUE(Eventually([&] { return runtime_.Quiet(std::chrono::milliseconds(200)); }));
  const FakeRuntime::Calls before = runtime_.calls();
  runtime_.End(runtime_.starts()[7].id, 1);
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 31; }));
  ASSERT_TRUE(Eventually([&] { return runtime_.Quiet(std::chrono::milliseconds(200)); }));
  const FakeRuntime::Calls after = runtime_.calls();
  EXPECT_EQ(after.lists, before.lists);
  EXPECT_EQ(after.observed - before.observed, after.observed_of(runtime_.starts()[7].pod_uid) -
                                                  before.observed_of(runtime_.starts()[7].pod_uid))
      << "of other pods nothing was asked";
}

TEST_F(PodTableTest, ARestartedAgentTouchesNothingAndKeepsCounts) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  runtime_.EndAll("app", 1);
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 2; }));
  ASSERT_TRUE(Eventually([&] { return !node_->view.ListPods().empty(); }));
  std::string before;
  ASSERT_TRUE(Eventually([&] {
    const auto status = node_->view.ListPods()[0]->status();
    before = status.SerializeAsString();
    return status.containerstatuses(0).state().has_running();
  }));
  Boot();
  ASSERT_TRUE(PhaseBecomes("Running"));
  EXPECT_EQ(node_->view.ListPods()[0]->status().SerializeAsString(), before);
  EXPECT_EQ(runtime_.StartCount(), 2u);
  EXPECT_TRUE(runtime_.signals().empty());
}

TEST_F(PodTableTest, AllThatRunsIsShownBeforeARestartedTableTurns) {
  std::vector<corev1::Pod> pods;
  for (int i = 0; i < 30; ++i) pods.push_back(MakePod(StrCat("u", i), StrCat("web", i)));
  source_.Set(pods);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(PhaseBecomes("Running", StrCat("web", i)));
  Boot();
  ASSERT_EQ(node_->recovered_pods.size(), 30u);
  for (const PodPtr& pod : node_->recovered_pods) {
    EXPECT_EQ(pod->status().phase(), "Running") << pod->metadata().name();
  }
}

// As after a kill between the pod's addresses and its files.
TEST_F(PodTableTest, ASandboxThatWasCutShortIsFinished) {
  model::SandboxSpec half;
  half.uid = PodUid("u1");
  ASSERT_TRUE(runtime_.EnsureSandbox(half));
  PodNetworkRequest request;
  request.uid = half.uid;
  ASSERT_TRUE(network_.Setup(request));
  Boot();
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  EXPECT_TRUE(std::filesystem::exists(instance_.PodFilesDir() + "/u1/etc-hosts"));
  EXPECT_EQ(node_->view.ListPods()[0]->status().podip(), "10.88.0.2");
}

// As after a kill between the start of a container and its link.
TEST_F(PodTableTest, AMissingLogLinkIsMadeByTheNextAgent) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  const std::string& links = instance_.container_log_dir;
  ASSERT_TRUE(Eventually([&] { return !std::filesystem::is_empty(links); }));
  const auto link = std::filesystem::directory_iterator(links)->path();
  node_.reset();
  std::filesystem::remove(link);
  Boot();
  EXPECT_TRUE(Eventually([&] { return std::filesystem::is_symlink(link); }));
}

TEST_F(PodTableTest, WarningsOfTheNetworkAreLogged) {
  network_.warnings = {"sysctl is read-only"};
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  source_.Set({});
  ASSERT_TRUE(PhaseBecomes("gone"));
  EXPECT_TRUE(Eventually([&] { return node_->Logged("sysctl is read-only"); }));
}

TEST_F(PodTableTest, AnEndingGoesOnAfterARestart) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  runtime_.ignore_signals = true;
  source_.Set({});
  ASSERT_TRUE(Eventually([&] { return !runtime_.signals().empty(); }));
  Boot();
  ASSERT_TRUE(PhaseBecomes("Running"));
  EXPECT_EQ(runtime_.signals().size(), 1u) << "signalled once";
  runtime_.EndAll("app", 0);
  EXPECT_TRUE(PhaseBecomes("gone"));
}

TEST_F(PodTableTest, ANewUidWaitsUntilTheOldPodOfThatNameIsGone) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  runtime_.ignore_signals = true;
  source_.Set({MakePod("u2")});
  ASSERT_TRUE(Eventually([&] { return !runtime_.signals().empty(); }));
  EXPECT_EQ(runtime_.StartCount(), 1u);
  EXPECT_EQ(node_->view.ListPods()[0]->metadata().uid(), "u1");
  runtime_.EndAll("app", 0);
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 2; }));
  ASSERT_TRUE(PhaseBecomes("Running"));
  EXPECT_EQ(node_->view.ListPods()[0]->metadata().uid(), "u2");
}

TEST_F(PodTableTest, WhatAPodHadOfTheNetworkIsFreedAndNothingElseIsLookedAt) {
  source_.Set({MakePod("u1"), MakePod("u2", "second")});
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 2; }));
  const int ensured = network_.ensured;
  source_.Set({});
  ASSERT_TRUE(Eventually([&] { return node_->view.ListPods().empty(); }));
  EXPECT_TRUE(Eventually([&] { return network_.released > 0; }));
  EXPECT_EQ(network_.ensured, ensured);
}

TEST_F(PodTableTest, AShorterGraceFromTheApiIsUsed) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  runtime_.ignore_signals = true;
  node_->table.SetDeletionGrace(PodUid("u1"), std::chrono::seconds(0));
  const auto began = std::chrono::steady_clock::now();
  source_.Set({});
  ASSERT_TRUE(PhaseBecomes("gone")) << "killed after the two seconds that every container gets";
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(1900));
}

TEST_F(PodTableTest, AnImportedImageStartsWhatWaitsForIt) {
  corev1::Pod pod = MakePod("u1");
  pod.mutable_spec()->mutable_containers(0)->set_image("later:1");
  source_.Set({pod});
  ASSERT_TRUE(Eventually([&] {
    const auto pods = node_->view.ListPods();
    if (pods.empty() || pods[0]->status().containerstatuses().empty()) return false;
    return pods[0]->status().containerstatuses(0).state().waiting().reason() == "ErrImagePull";
  }));
  images_.Add("later:1");
  node_->table.ImagesChanged();
  EXPECT_TRUE(PhaseBecomes("Running"));
}

TEST_F(PodTableTest, PodsThatNobodyKnowsAreRemovedAtStart) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  node_.reset();
  std::filesystem::remove_all(instance_.PodsDir() + "/u1");
  source_.Set({});
  Boot();
  EXPECT_TRUE(Eventually([&] { return runtime_.Count() == 0; }));
}

TEST_F(PodTableTest, WatchersSeeEveryChangeInOrder) {
  std::mutex mutex;
  std::vector<uint64_t> versions;
  std::vector<ChangeType> types;
  const auto subscription = node_->view.WatchPods([&](const PodChange& change) {
    const std::lock_guard lock(mutex);
    versions.push_back(std::stoull(change.pod->metadata().resourceversion()));
    types.push_back(change.type);
  });
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  source_.Set({});
  ASSERT_TRUE(PhaseBecomes("gone"));
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex);
    return !types.empty() && types.back() == ChangeType::kDeleted;
  }));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(types.front(), ChangeType::kAdded);
  EXPECT_TRUE(std::is_sorted(versions.begin(), versions.end()));
}

TEST_F(PodTableTest, ManyPodsRunInParallel) {
  std::vector<corev1::Pod> pods;
  for (int i = 0; i < 100; ++i) pods.push_back(MakePod(StrCat("u", i), StrCat("web-", i)));
  source_.Set(pods);
  ASSERT_TRUE(Eventually([&] {
    const auto list = node_->view.ListPods();
    return list.size() == 100 && std::all_of(list.begin(), list.end(), [](const PodPtr& pod) {
             return pod->status().phase() == "Running";
           });
  }));
  source_.Set({});
  EXPECT_TRUE(Eventually([&] { return node_->view.ListPods().empty(); }));
  EXPECT_EQ(runtime_.Count(), 0u);
}

corev1::Pod MakePodOf(int containers, const std::string& uid, const std::string& name) {
  corev1::Pod pod = MakePod(uid, name);
  const corev1::Container first = pod.spec().containers(0);
  for (int i = 1; i < containers; ++i) {
    corev1::Container* more = pod.mutable_spec()->add_containers();
    *more = first;
    more->set_name(StrCat("app", i));
  }
  return pod;
}

TEST_F(PodTableTest, ANewPodIsShownWhileAllWorkersAreStuck) {
  std::mutex mutex;
  std::condition_variable changed;
  size_t stuck = 0;
  bool released = false;
  runtime_.before_start = [&](const model::ContainerSpec&) -> std::optional<StartFailure> {
    std::unique_lock lock(mutex);
    ++stuck;
    changed.wait(lock, [&] { return released; });
    return std::nullopt;
  };
  std::vector<corev1::Pod> pods;
  for (size_t i = 0; i < options_.workers; ++i)
    pods.push_back(MakePod(StrCat("u", i), StrCat("stuck-", i)));
  source_.Set(pods);
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex);
    return stuck == options_.workers;
  }));
  pods.push_back(MakePod("new", "new"));
  source_.Set(pods);
  EXPECT_TRUE(PhaseBecomes("Pending", "new"));
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(stuck, options_.workers);
    released = true;
  }
  changed.notify_all();
  EXPECT_TRUE(PhaseBecomes("Running", "new"));
  for (size_t i = 0; i < options_.workers; ++i) {
    EXPECT_TRUE(PhaseBecomes("Running", StrCat("stuck-", i)));
  }
}

// Each start of the bad pods takes a second of the clock and fails. One worker.
TEST_F(PodTableTest, PodsWhoseStartsFailTakeTurnsWithAGoodOne) {
  constexpr int kBad = 5;
  options_.workers = 1;
  Boot();
  std::atomic<int> failed = 0;
  std::atomic<int> failed_before_good = -1;
  std::atomic<bool> held = true;
  runtime_.before_start = [&](const model::ContainerSpec& spec) -> std::optional<StartFailure> {
    if (spec.pod_uid == PodUid("good")) {
      failed_before_good = failed.load();
      return std::nullopt;
    }
    while (held) std::this_thread::yield();
    // In truth too: turns are counted, not how the machine shares its processors out.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ++failed;
    clock_.passed_ms += 1000;
    return StartFailure{StartFailure::Phase::kCreate, NotFound("subPath")};
  };
  // The bad pods are tried again for as long as there is a node, and each try asks the above.
  const std::shared_ptr<void> end(nullptr, [&](void*) {
    held = false;
    node_.reset();
  });
  std::vector<corev1::Pod> pods;
  for (int i = 0; i < kBad; ++i) pods.push_back(MakePodOf(20, StrCat("u", i), StrCat("bad-", i)));
  source_.Set(pods);
  ASSERT_TRUE(Eventually([&] { return node_->view.ListPods().size() == kBad; }));
  pods.push_back(MakePod("good", "good"));
  source_.Set(pods);
  ASSERT_TRUE(PhaseBecomes("Pending", "good"));
  held = false;
  ASSERT_TRUE(PhaseBecomes("Running", "good"));
  // One turn of each of the others comes before its own, in which it does all that it has to do.
  EXPECT_GE(failed_before_good, 0);
  EXPECT_LE(failed_before_good, 2 * kBad);
  // Nothing of the others' turns was lost.
  EXPECT_TRUE(Eventually([&] { return failed >= kBad * 20; }));
}

// Each kind of operation hangs for ever in one pod: it stands still, the others do not, and what of
// it can be taken down is.
class HangTest : public PodTableTest, public ::testing::WithParamInterface<FakeRuntime::Step> {};

TEST_P(HangTest, HoldsUpItsOwnPodOnly) {
  using Step = FakeRuntime::Step;
  options_.workers = 1;  // one place per kind: the stuck one gives it back when it is overdue
  options_.step_deadline = std::chrono::seconds(1);
  Boot();
  const Step step = GetParam();
  const bool sets_up = step == Step::kSandbox || step == Step::kStart;
  if (sets_up) runtime_.Hang(step, PodUid("bad"));
  source_.Set({MakePod("bad", "bad")});
  if (!sets_up) {
    ASSERT_TRUE(PhaseBecomes("Running", "bad"));
    runtime_.ignore_signals = step == Step::kKill;
    runtime_.Hang(step, PodUid("bad"));
    source_.Set({});
    if (step == Step::kKill) node_->table.SetDeletionGrace(PodUid("bad"), std::chrono::seconds(0));
  }
  ASSERT_TRUE(Eventually([&] { return runtime_.Hangs(); }));
  runtime_.ignore_signals = false;
  // Another one comes, runs and goes, through the very lane.
  source_.Set({MakePod("good", "good")});
  EXPECT_TRUE(PhaseBecomes("Running", "good"));
  source_.Set({});
  EXPECT_TRUE(PhaseBecomes("gone", "good"));
  EXPECT_TRUE(runtime_.Hangs());
  EXPECT_NE(node_->Phase("bad"), "gone");
  const auto reasons = EventReasons();
  EXPECT_TRUE(std::ranges::find(reasons, "FailedSync") != reasons.end());
  // A signal that hangs does not keep the pod from being killed.
  if (step == Step::kSignal) {
    node_->table.SetDeletionGrace(PodUid("bad"), std::chrono::seconds(0));
    EXPECT_TRUE(Eventually([&] { return runtime_.Ended("bad"); }));
  }
  runtime_.Release();
  EXPECT_TRUE(PhaseBecomes("gone", "bad"));
  EXPECT_EQ(runtime_.Count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Steps, HangTest,
                         ::testing::Values(FakeRuntime::Step::kSandbox, FakeRuntime::Step::kStart,
                                           FakeRuntime::Step::kSignal, FakeRuntime::Step::kKill,
                                           FakeRuntime::Step::kRemove,
                                           FakeRuntime::Step::kRemoveSandbox));

// A start that waits for its turn while an import gives the image's name to another one.
TEST_F(PodTableTest, TheImageThatWasDecidedIsTheOneThatStarts) {
  options_.workers = 1;
  Boot();
  runtime_.Hang(FakeRuntime::Step::kStart, PodUid("other"));
  source_.Set({MakePod("other", "other")});
  ASSERT_TRUE(Eventually([&] { return runtime_.Hangs(); }));
  source_.Set({MakePod("other", "other"), MakePod("u1")});
  ASSERT_TRUE(Eventually([&] {
    const PodPtr pod = node_->view.FindPod("default", "web");
    return pod && !pod->status().podip().empty() && runtime_.Quiet(std::chrono::milliseconds(200));
  }));
  images_.Move("busybox:1", "sha256:2");
  node_->table.ImagesChanged();
  runtime_.Release();
  ASSERT_TRUE(PhaseBecomes("Running"));
  const PodPtr pod = node_->view.FindPod("default", "web");
  EXPECT_EQ("/layers/" + pod->status().containerstatuses(0).imageid(),
            runtime_.starts().back().root_fs.layers.at(0));
}

TEST_F(PodTableTest, ANewVersionOfAPodIsTakenOverWhileItRuns) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  corev1::Pod changed = MakePod("u1");
  (*changed.mutable_metadata()->mutable_labels())["tier"] = "web";
  source_.Set({changed});
  ASSERT_TRUE(
      Eventually([&] { return node_->view.ListPods()[0]->metadata().labels().contains("tier"); }));
  EXPECT_EQ(runtime_.StartCount(), 1u);
  EXPECT_TRUE(runtime_.signals().empty());
  // It is remembered.
  Boot();
  EXPECT_TRUE(node_->recovered_pods.at(0)->metadata().labels().contains("tier"));
}

TEST_F(PodTableTest, AnotherImageOfTheSamePodRestartsItsContainer) {
  images_.Add("busybox:2", "sha256:2");
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  corev1::Pod changed = MakePod("u1");
  changed.mutable_spec()->mutable_containers(0)->set_image("busybox:2");
  source_.Set({changed});
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 2; }));
  EXPECT_EQ(runtime_.starts()[1].root_fs.layers.at(0), "/layers/sha256:2");
}

TEST_F(PodTableTest, AnotherPodOfTheSameUidWaitsUntilTheFirstIsGone) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  runtime_.ignore_signals = true;
  corev1::Pod other = MakePod("u1");
  other.mutable_spec()->mutable_containers(0)->add_command("/bin/other");
  source_.Set({other});
  ASSERT_TRUE(Eventually([&] { return !runtime_.signals().empty(); }));
  EXPECT_EQ(runtime_.StartCount(), 1u);
  runtime_.EndAll("app", 0);
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 2; }));
  EXPECT_EQ(runtime_.starts()[1].argv.at(0), "/bin/other");
}

// A record that is damaged, or of a newer agent: nothing of it is guessed.
TEST_F(PodTableTest, APodWhoseRecordCannotBeReadBeginsAnew) {
  corev1::Pod pod = MakePod("u1");
  corev1::Container* init = pod.mutable_spec()->add_initcontainers();
  *init = pod.spec().containers(0);
  init->set_name("init");
  source_.Set({pod});
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 1; }));
  runtime_.EndAll("init", 0);
  ASSERT_TRUE(PhaseBecomes("Running"));
  node_.reset();
  ASSERT_TRUE(PodStateStore::Open(instance_).value()->SaveRecord(pod, R"({"version": 99})"));
  bool beside = false;  // the init container beside the main one
  runtime_.before_start = [&](const model::ContainerSpec& spec) -> std::optional<StartFailure> {
    beside = beside || (spec.name == "init" && runtime_.Runs("app"));
    return std::nullopt;
  };
  Boot();
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 3; }));
  EXPECT_EQ(runtime_.starts()[2].name, "init");
  EXPECT_FALSE(beside);
  const auto reasons = EventReasons();
  EXPECT_TRUE(std::ranges::find(reasons, "FailedSync") != reasons.end());
  runtime_.EndAll("init", 0);
  EXPECT_TRUE(PhaseBecomes("Running"));
}

TEST_F(PodTableTest, AnotherOwnersSandboxIsLeftAlone) {
  model::SandboxSpec theirs;
  theirs.uid = PodUid("theirs");
  theirs.owner = "cri";
  ASSERT_TRUE(runtime_.EnsureSandbox(theirs));
  model::SandboxSpec ours;
  ours.uid = PodUid("ours");
  ASSERT_TRUE(runtime_.EnsureSandbox(ours));
  Boot();
  source_.Set({});
  EXPECT_TRUE(Eventually([&] { return runtime_.Count() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(runtime_.Count(), 1u);
}

// The unknown pod's removal is slow; a pod of its UID is wanted meanwhile.
TEST_F(PodTableTest, APodWaitsForTheRemovalOfWhatNobodyKnewOfItsUid) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  node_.reset();
  std::filesystem::remove_all(instance_.PodsDir() + "/u1");
  source_.Set({});
  runtime_.Hang(FakeRuntime::Step::kRemoveSandbox, PodUid("u1"));
  Boot();
  ASSERT_TRUE(Eventually([&] { return runtime_.Hangs(); }));
  source_.Set({MakePod("u1")});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(runtime_.StartCount(), 1u);
  runtime_.Release();
  ASSERT_TRUE(Eventually([&] { return runtime_.StartCount() == 2; }));
  EXPECT_TRUE(PhaseBecomes("Running"));
  EXPECT_TRUE(runtime_.Runs("app"));
}

TEST_F(PodTableTest, AWishThatIsTakenBackIsForgotten) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  runtime_.ignore_signals = true;
  node_->table.SetDeletionGrace(PodUid("u1"), std::chrono::seconds(0));
  node_->table.SetDeletionGrace(PodUid("u1"), std::nullopt);
  source_.Set({});
  ASSERT_TRUE(Eventually([&] { return !runtime_.signals().empty(); }));
  EXPECT_EQ(node_->view.ListPods()[0]->metadata().deletiongraceperiodseconds(), 30);
}

TEST_F(PodTableTest, AnEndingIsShortenedAndNeverMadeLonger) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  runtime_.ignore_signals = true;
  source_.Set({});
  ASSERT_TRUE(Eventually([&] { return !runtime_.signals().empty(); }));
  node_->table.SetDeletionGrace(PodUid("u1"), std::chrono::seconds(3600));
  node_->table.SetDeletionGrace(PodUid("u1"), std::chrono::seconds(0));
  EXPECT_TRUE(PhaseBecomes("gone"));
}

// Pods of an origin that has not yet said all it wants stay, whatever the others said.
TEST_F(PodTableTest, APodGoesOnlyWhenItsOwnOriginDoesNotWantIt) {
  node_.reset();
  const auto state = PodStateStore::Open(instance_).value();
  for (const auto& [uid, origin] :
       std::map<std::string, PodOrigin>{{"file", PodOrigin::kFile}, {"api", PodOrigin::kApi}}) {
    ASSERT_TRUE(state->SavePod(MakePod(uid, uid)));
    PodMemory memory;
    memory.origin = origin;
    memory.start_time = clock_.Wall();
    ASSERT_TRUE(state->SaveRecord(MakePod(uid, uid), EncodeRecord(memory)));
  }
  source_.Set({});
  Node node(instance_, runtime_, images_, network_, source_, clock_, options_, Offer(),
            {PodOrigin::kFile, PodOrigin::kApi});
  EXPECT_TRUE(Eventually([&] { return node.Phase("file") == "gone"; }));
  EXPECT_TRUE(Eventually([&] { return node.Phase("api") == "Running"; }));
  node.registry.Complete(PodOrigin::kApi);
  EXPECT_TRUE(Eventually([&] { return node.Phase("api") == "gone"; }));
}

}  // namespace
}  // namespace holdfast::agent
