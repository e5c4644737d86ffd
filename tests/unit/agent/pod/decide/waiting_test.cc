// SPDX-License-Identifier: Apache-2.0
// Back-off and the waiting states: images that are not there, failures to create and to start.
#include <gtest/gtest.h>

#include "agent/kube/utf8.h"
#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;

constexpr char kIfNotPresent[] =
    R"(containers { name: "app" image: "x" imagePullPolicy: "IfNotPresent" })";

TEST(BackOffTest, DoublesFromTenSecondsToFiveMinutes) {
  PodWorld world(kIfNotPresent);
  world.Run();
  const std::vector<int> delays = {0, 10, 20, 40, 80, 160, 300, 300};
  for (size_t i = 0; i < delays.size(); ++i) {
    world.Pass(seconds(1));
    world.Exit("app", 1);
    world.Run();
    if (delays[i] > 0) {
      EXPECT_EQ(world.State("app"), "waiting CrashLoopBackOff") << i;
      ASSERT_TRUE(world.last.wake_at) << i;
      EXPECT_EQ(*world.last.wake_at - world.boot, seconds(delays[i])) << i;
      EXPECT_TRUE(world.Run().empty()) << "not before its time";
      world.Pass(seconds(delays[i]));
      world.Run();
    }
    EXPECT_EQ(world.State("app"), "running") << i;
    EXPECT_EQ(world.Status("app").restartcount(), static_cast<int>(i) + 1);
  }
}

TEST(BackOffTest, MessageAndEventAreKubernetesOwn) {
  PodWorld world(kIfNotPresent);
  world.Run();
  world.Exit("app", 1);
  world.Run();
  world.events.clear();
  world.Exit("app", 1);
  world.Run();
  EXPECT_EQ(world.Status("app").state().waiting().message(),
            "back-off 10s restarting failed container=app pod=web-n1_default(u1)");
  EXPECT_EQ(world.Status("app").laststate().terminated().reason(), "Error");
  EXPECT_EQ(
      world.events,
      (Actions{"BackOff: Back-off restarting failed container app in pod web-n1_default(u1)"}));
  world.Run();
  EXPECT_EQ(world.events.size(), 1u) << "told once per attempt";
}

TEST(BackOffTest, MinutesAreWrittenAsGoWritesThem) {
  PodWorld world(kIfNotPresent);
  world.Run();
  for (const int delay : {0, 10, 20, 40}) {
    world.Exit("app", 1);
    world.Run();
    world.Pass(seconds(delay));
    world.Run();
  }
  world.Exit("app", 1);
  world.Run();
  EXPECT_EQ(world.Status("app").state().waiting().message(),
            "back-off 1m20s restarting failed container=app pod=web-n1_default(u1)");
}

TEST(BackOffTest, IsForgottenAfterARunOfMoreThanTenMinutes) {
  PodWorld world(kIfNotPresent);
  world.Run();
  world.Exit("app", 1);
  world.Run();
  world.Pass(seconds(601));
  world.Exit("app", 1);
  EXPECT_EQ(world.Run(), (Actions{"remove app#1", "start app#2"}));
  world.Pass(seconds(1));
  world.Exit("app", 1);
  world.Run();
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(10)) << "from the beginning again";
}

TEST(BackOffTest, SurvivesARestartOfTheAgentAndAStepOfTheClock) {
  PodWorld world(kIfNotPresent);
  world.Run();
  world.Exit("app", 1);
  world.Run();
  world.Exit("app", 1);
  world.Run();
  world.Pass(seconds(4));
  world.RestartAgent();
  world.Run();
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(6));
  world.wall = world.wall + std::chrono::hours(1000);
  world.Run();
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(6)) << "a clock step changes nothing";
}

TEST(BackOffTest, TheNodesMaximumBelowTenSecondsIsAlsoTheFirstDelay) {
  PodWorld world(kIfNotPresent);
  world.node.max_back_off = seconds(3);
  world.Run();
  world.Exit("app", 1);
  world.Run();
  world.Exit("app", 1);
  world.Run();
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(3));
}

constexpr char kAlways[] = R"(containers { name: "app" image: "x" imagePullPolicy: "Always" })";

Actions EventsOf(const PodWorld& world, const std::string& reason) {
  Actions found;
  for (const std::string& event : world.events) {
    if (event.starts_with(reason)) found.push_back(event);
  }
  return found;
}

TEST(ImageTest, AnImageThatIsNotThereIsPulledBesideTheSandbox) {
  PodWorld world(kIfNotPresent);
  world.images["x"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  EXPECT_EQ(world.Look(), (Actions{"ensure volumes", "ensure sandbox", "pull app#0 x"}));
  EXPECT_EQ(world.last.begin.size(), 3u) << "nothing waits for anything";
  EXPECT_EQ(world.State("app"), "waiting ContainerCreating");
  EXPECT_EQ(world.events, (Actions{"Pulling: Pulling image \"x\""}));
  world.events.clear();
  EXPECT_EQ(world.Run(),
            (Actions{"ensure volumes", "ensure sandbox", "pull app#0 x", "start app#0"}));
  EXPECT_EQ(EventsOf(world, "Pulled"),
            (Actions{"Pulled: Successfully pulled image \"x\" in 1.5s (1m2s including waiting). "
                     "Image size: 1234 bytes."}));
  EXPECT_EQ(world.State("app"), "running");
}

TEST(ImageTest, APullThatFailsIsErrImagePullThenImagePullBackOff) {
  PodWorld world(kIfNotPresent);
  world.images["x"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  world.pull_errors["x"] = "no such thing";
  world.Run();
  EXPECT_EQ(world.State("app"), "waiting ErrImagePull");
  EXPECT_EQ(world.Status("app").state().waiting().message(), "no such thing");
  EXPECT_EQ(world.Condition("PodReadyToStartContainers"), "True");
  world.Pass(seconds(2));
  world.Run();
  EXPECT_EQ(world.State("app"), "waiting ImagePullBackOff");
  EXPECT_EQ(world.Status("app").state().waiting().message(),
            "Back-off pulling image \"x\": ErrImagePull: no such thing");
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(8)) << "10 s after the attempt";
  EXPECT_EQ(
      world.events,
      (Actions{"Pulling: Pulling image \"x\"", "Failed: Failed to pull image \"x\": no such thing",
               "Failed: Error: ErrImagePull", "BackOff: Back-off pulling image \"x\"",
               "Failed: Error: ImagePullBackOff"}));
  world.Run();
  EXPECT_EQ(world.events.size(), 5u) << "told once";
}

TEST(ImageTest, ARegistryThatDoesNotAnswerHasAReasonOfItsOwn) {
  PodWorld world(kIfNotPresent);
  world.images["x"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  world.pull_errors["x"] = "RegistryUnavailable: connection refused";
  world.Run();
  EXPECT_EQ(world.State("app"), "waiting RegistryUnavailable");
  const std::string message =
      "image pull failed for x because the registry is unavailable: connection refused";
  EXPECT_EQ(world.Status("app").state().waiting().message(), message);
  world.Pass(seconds(2));
  world.Run();
  EXPECT_EQ(world.State("app"), "waiting ImagePullBackOff");
  EXPECT_EQ(world.Status("app").state().waiting().message(),
            StrCat("Back-off pulling image \"x\": RegistryUnavailable: ", message));
  EXPECT_EQ(EventsOf(world, "Failed"),
            (Actions{"Failed: Failed to pull image \"x\": RegistryUnavailable: connection refused",
                     "Failed: Error: RegistryUnavailable", "Failed: Error: ImagePullBackOff"}));
}

TEST(ImageTest, AnImageThatAPolicyRejectsHasAReasonOfItsOwn) {
  PodWorld world(kIfNotPresent);
  world.images["x"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  world.pull_errors["x"] = "SignatureValidationFailed: Source image rejected: no";
  world.Run();
  EXPECT_EQ(world.State("app"), "waiting SignatureValidationFailed");
  const std::string message =
      "image pull failed for x because the signature validation failed: Source image rejected: no";
  EXPECT_EQ(world.Status("app").state().waiting().message(), message);
  world.Pass(seconds(2));
  world.Run();
  EXPECT_EQ(world.State("app"), "waiting ImagePullBackOff");
  EXPECT_EQ(world.Status("app").state().waiting().message(),
            StrCat("Back-off pulling image \"x\": SignatureValidationFailed: ", message));
}

TEST(ImageTest, NeverWaitsForTheSecretsToo) {
  PodWorld world(R"(containers { name: "app" image: "x" imagePullPolicy: "Never" })");
  const ImageFact present = world.images["x"];
  world.images["x"] = {};  // as long as nobody knows whether the pod may have it
  world.inputs.secrets_pending = true;
  world.Run();
  EXPECT_EQ(world.State("app"), "waiting ContainerCreating");
  EXPECT_TRUE(EventsOf(world, "Err").empty());
  world.inputs.secrets_pending = false;
  world.images["x"] = present;
  world.Run();
  EXPECT_EQ(world.State("app"), "running");
}

TEST(ImageTest, PullsBackOffFromTenSecondsToFiveMinutes) {
  PodWorld world(kIfNotPresent);
  world.images["x"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  world.pull_errors["x"] = "no";
  world.Run();
  for (const int delay : {10, 20, 40, 80, 160, 300, 300}) {
    world.Pass(seconds(2));
    world.Run();
    EXPECT_EQ(*world.last.wake_at - world.boot, seconds(delay - 2));
    world.Pass(seconds(delay - 2));
    world.events.clear();
    EXPECT_EQ(world.Run(), (Actions{"pull app#0 x"}));
    EXPECT_EQ(EventsOf(world, "Pulling").size(), 1u);
  }
  world.pull_errors.clear();
  world.Pass(seconds(300));
  EXPECT_EQ(world.Run(), (Actions{"pull app#0 x", "start app#0"}));
}

TEST(ImageTest, APullThatIsTriedAgainShowsWhyItFailedBefore) {
  PodWorld world(kIfNotPresent);
  world.images["x"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  world.pull_errors["x"] = "no";
  world.Run();
  world.Pass(seconds(2));
  world.Run();
  world.Pass(seconds(8));
  EXPECT_EQ(world.Look(), (Actions{"pull app#0 x"}));
  EXPECT_EQ(world.State("app"), "waiting ImagePullBackOff");
}

constexpr char kImageVolume[] = R"(
  volumes { name: "data" volumeSource { image { reference: "files" pullPolicy: "Always" } } }
  volumes { name: "other" volumeSource { image { reference: "unused" } } }
  containers { name: "app" image: "x" volumeMounts { name: "data" mountPath: "/data" } }
  containers { name: "beside" image: "x" })";

TEST(ImageTest, TheImagesOfVolumesArePulledBeforeAContainerThatMountsThemStarts) {
  PodWorld world(kImageVolume);
  world.images["files"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  EXPECT_EQ(world.Run(), (Actions{"ensure volumes", "ensure sandbox", "pull app#0 files",
                                  "start beside#0", "start app#0"}));
  EXPECT_EQ(EventsOf(world, "Pulled").size(), 2u)
      << "the volume's, and that the container's own was there";
  EXPECT_EQ(world.memory.containers["app"].launch->reference, "x");
  world.Exit("app", 1);
  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "pull app#1 files", "start app#1"}));
}

TEST(ImageTest, AVolumeWhoseImageCannotBePulledHoldsUpWhoMountsIt) {
  PodWorld world(kImageVolume);
  world.images["files"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  world.pull_errors["files"] = "no such thing";
  world.Run();
  EXPECT_EQ(world.State("app"), "waiting ErrImagePull");
  EXPECT_EQ(world.State("beside"), "running");
  world.Pass(seconds(2));
  EXPECT_EQ(world.Run(), Actions());
  EXPECT_EQ(world.Status("app").state().waiting().message(),
            "Back-off pulling image \"files\": ErrImagePull: no such thing");
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(8))
      << "that the container's own image is there ends no back-off";
}

TEST(ImageTest, AlwaysPullsBeforeEachStart) {
  PodWorld world(kAlways);
  EXPECT_EQ(world.Run(),
            (Actions{"ensure volumes", "ensure sandbox", "pull app#0 x", "start app#0"}));
  EXPECT_EQ(EventsOf(world, "Pulled").size(), 1u) << "and not that it was there already";
  world.Exit("app", 1);
  EXPECT_EQ(world.Run(), (Actions{"remove app#0", "pull app#1 x", "start app#1"}));
  world.pull_errors["x"] = "away";
  world.Pass(seconds(60));
  world.Exit("app", 1);
  world.Run();
  world.Pass(seconds(10));
  world.Run();
  EXPECT_EQ(world.State("app"), "waiting ErrImagePull") << "though an older one is there";
}

TEST(ImageTest, NeverAndIfNotPresentUseWhatIsThere) {
  for (const char* policy : {"Never", "IfNotPresent"}) {
    PodWorld world(
        StrCat(R"(containers { name: "app" image: "x" imagePullPolicy: ")", policy, "\" }"));
    EXPECT_EQ(world.Run(), (Actions{"ensure volumes", "ensure sandbox", "start app#0"}));
    EXPECT_TRUE(EventsOf(world, "Pulling").empty());
  }
}

TEST(ImageTest, APullWaitsForTheSecretsAndEndsWithThePod) {
  PodWorld world(kIfNotPresent);
  world.images["x"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  world.inputs.secrets_pending = true;
  EXPECT_EQ(world.Run(), (Actions{"ensure sandbox"}));
  world.inputs.secrets_pending = false;
  world.Look();
  world.under_way = {{world.last.begin.back(), true, world.boot, false}};
  world.Pass(std::chrono::hours(1));
  world.Look();
  EXPECT_TRUE(world.last.overdue.empty()) << "a pull looks after itself";
  EXPECT_TRUE(world.last.cancel.empty());
  world.deletion_grace = seconds(0);
  world.Look();
  ASSERT_EQ(world.last.cancel.size(), 1u);
  EXPECT_EQ(ToString(world.last.cancel[0]), "pull app#0 x");
}

TEST(ImageTest, AnImportedImageIsUsedAtOnce) {
  PodWorld world(kIfNotPresent);
  const ImageFact present = world.images["x"];
  world.images["x"] = {ImageFact::State::kAbsent, "", "", "", "not found"};
  world.pull_errors["x"] = "no registry";
  world.Run();
  world.images["x"] = present;
  EXPECT_EQ(world.Run(), (Actions{"start app#0"}));
  EXPECT_EQ(world.State("app"), "running");
}

TEST(ImageTest, NeverPullAndBadNamesHaveTheirOwnReasons) {
  PodWorld world(R"(containers { name: "a" image: "x" imagePullPolicy: "Never" }
                    containers { name: "b" image: "UP:" } containers { name: "c" image: "z" })");
  world.images["x"] = {ImageFact::State::kAbsent, "", "", "", ""};
  world.images["UP:"] = {ImageFact::State::kInvalidName, "", "", "", "invalid reference format"};
  world.images["z"] = {ImageFact::State::kError, "", "", "", "disk on fire"};
  world.Run();
  EXPECT_EQ(world.State("a"), "waiting ErrImageNeverPull");
  EXPECT_EQ(world.Status("a").state().waiting().message(),
            "Container image \"x\" is not present with pull policy of Never");
  EXPECT_EQ(world.State("b"), "waiting InvalidImageName");
  EXPECT_EQ(world.State("c"), "waiting ImageInspectError");
  EXPECT_EQ(world.last.status.phase(), "Pending");
}

struct FailureRow {
  StartFailure::Phase phase;
  std::string reason;
  uint32_t attempts;
};

class StartFailureTest : public ::testing::TestWithParam<FailureRow> {};

TEST_P(StartFailureTest, ShowsTheReasonAndTriesAgain) {
  const FailureRow& row = GetParam();
  PodWorld world(kIfNotPresent);
  world.Look();
  world.CarryOut({Action::Kind::kEnsureVolumes});
  world.CarryOut({Action::Kind::kEnsureSandbox});
  const EventNote note =
      RecordStartFailure(world.memory, "app", 0, {row.phase, Internal("it broke")},
                         world.node.max_back_off, world.wall, world.boot);
  EXPECT_EQ(note.message, "Error: it broke");
  EXPECT_TRUE(world.Look().empty());
  EXPECT_EQ(world.State("app"), "waiting " + row.reason);
  EXPECT_EQ(world.Status("app").state().waiting().message(), "it broke");
  EXPECT_EQ(world.memory.containers["app"].attempts, row.attempts);
  world.Pass(seconds(10));
  EXPECT_EQ(world.Run().back(), StrCat("start app#", row.attempts));
  EXPECT_EQ(world.State("app"), "running");
}

INSTANTIATE_TEST_SUITE_P(
    Phases, StartFailureTest,
    ::testing::Values(FailureRow{StartFailure::Phase::kConfig, "CreateContainerConfigError", 0},
                      FailureRow{StartFailure::Phase::kCreate, "CreateContainerError", 0},
                      FailureRow{StartFailure::Phase::kStart, "RunContainerError", 1}));

TEST(StartErrorTest, CountsAsAnAttemptThatEndedWith128) {
  PodWorld world(StrCat("restartPolicy: \"Never\" ", kIfNotPresent));
  world.Look();
  world.CarryOut({Action::Kind::kEnsureSandbox});
  RecordStartFailure(world.memory, "app", 0,
                     {StartFailure::Phase::kStart, Internal("no such file")},
                     world.node.max_back_off, world.wall, world.boot);
  world.Run();
  EXPECT_EQ(world.State("app"), "terminated StartError 128");
  EXPECT_EQ(world.last.status.phase(), "Failed");
}

TEST(SandboxFailureTest, IsWaitedOut) {
  PodWorld world(kIfNotPresent);
  world.Look();
  world.memory.failure =
      Failure{"FailedCreatePodSandBox", "no addresses", world.boot + std::chrono::seconds(10)};
  EXPECT_TRUE(world.Look().empty());
  EXPECT_EQ(*world.last.wake_at - world.boot, seconds(10));
  EXPECT_EQ(world.State("app"), "waiting ContainerCreating");
  world.Pass(seconds(10));
  EXPECT_EQ(world.Run().size(), 3u);
}

TEST(TerminationMessageTest, ComesFromTheFileOrTheLogAsThePolicySays) {
  corev1::Container spec;
  ContainerFact fact;
  fact.observed.exit = model::ExitReport{};
  fact.observed.exit->exit_code = 1;
  fact.termination_file = std::string(5000, 'x');
  EXPECT_EQ(TerminationMessage(spec, fact).size(), 4096u);
  fact.termination_file.clear();
  for (int i = 0; i < 100; ++i) fact.log_tail += StrCat("line ", i, "\n");
  EXPECT_EQ(TerminationMessage(spec, fact), "") << "policy File";
  spec.set_terminationmessagepolicy("FallbackToLogsOnError");
  EXPECT_TRUE(TerminationMessage(spec, fact).starts_with("line 20\n")) << "80 lines";
  fact.log_tail = std::string(5000, 'y');
  EXPECT_EQ(TerminationMessage(spec, fact).size(), 2048u);
  fact.observed.exit->exit_code = 0;
  EXPECT_EQ(TerminationMessage(spec, fact), "") << "only after an error";
}

TEST(TerminationMessageTest, IsUtf8WhateverTheContainerWrote) {
  corev1::Container spec;
  ContainerFact fact;
  fact.observed.exit = model::ExitReport{};
  fact.observed.exit->exit_code = 1;
  fact.termination_file =
      "\xff"
      "bin";
  EXPECT_EQ(TerminationMessage(spec, fact),
            "\xef\xbf\xbd"
            "bin");
  fact.termination_file.clear();
  fact.log_tail = "\xc3";
  spec.set_terminationmessagepolicy("FallbackToLogsOnError");
  EXPECT_EQ(TerminationMessage(spec, fact), "\xef\xbf\xbd");
}

TEST(TerminationMessageTest, IsNotCutInTheMiddleOfACharacter) {
  PodWorld world(R"(restartPolicy: "Never" containers { name: "app" image: "i" })");
  world.Run();
  world.Exit("app", 1);
  // 4096 bytes may be shown of one container's: the last character has two.
  world.containers[0].termination_file = std::string(4095, 'x') + "\xc3\xa4";
  world.Run();
  const std::string shown = world.Status("app").state().terminated().message();
  EXPECT_EQ(shown.substr(0, 4095), std::string(4095, 'x'));
  EXPECT_EQ(kube::ReplaceInvalidUtf8(shown), shown);
}

TEST(WaitingTest, ANodeWithoutRangesIsToldAndWaitedFor) {
  PodWorld world(R"(containers { name: "app" image: "x" })");
  world.network_problem = "the Node has no spec.podCIDRs yet";
  EXPECT_EQ(world.Look(), Actions{});
  EXPECT_EQ(world.last.wake_at, world.boot + std::chrono::seconds(1));
  world.Pass(std::chrono::seconds(1));
  EXPECT_EQ(world.Look(), Actions{});
  EXPECT_EQ(world.events,
            Actions{"NetworkNotReady: network is not ready: container runtime network not ready: "
                    "NetworkReady=false reason:NetworkPluginNotReady message:the Node has no "
                    "spec.podCIDRs yet"});
  EXPECT_EQ(world.State("app"), "waiting ContainerCreating");
  world.network_problem.clear();
  EXPECT_EQ(world.Run(), (Actions{"ensure volumes", "ensure sandbox", "start app#0"}));
  world.network_problem = "the Node has no spec.podCIDRs yet";
  EXPECT_EQ(world.Look(), Actions{}) << "of no concern to one that has its addresses";
  EXPECT_EQ(world.State("app"), "running");
}

TEST(WaitingTest, TheHostsNetworkIsAlwaysThere) {
  PodWorld world(R"(hostNetwork: true containers { name: "app" image: "x" })");
  world.network_problem = "the Node has no spec.podCIDRs yet";
  EXPECT_EQ(world.Run(), (Actions{"ensure volumes", "ensure sandbox", "start app#0"}));
}

}  // namespace
}  // namespace holdfast::agent
