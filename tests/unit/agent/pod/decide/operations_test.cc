// SPDX-License-Identifier: Apache-2.0
// Operations as facts: what begins beside what is under way, what is cancelled, what ends mean.
#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

constexpr char kTwo[] =
    "containers { name: \"a\" image: \"x\" } containers { name: \"b\" image: \"x\" }";

Actions Texts(const std::vector<Action>& actions) {
  Actions out;
  for (const Action& action : actions) out.push_back(ToString(action));
  return out;
}

class OperationsTest : public ::testing::Test {
 protected:
  // What the last decision begins is under way from now on.
  Actions Begin() {
    world.Look();
    for (const Action& action : world.last.begin) {
      world.under_way.push_back({action, true, world.boot, false});
    }
    return Texts(world.last.begin);
  }
  OperationEnd Take(const std::string& text, OperationEnd::How how) {
    const auto it = std::ranges::find_if(
        world.under_way, [&](const OperationFact& o) { return ToString(o.action) == text; });
    EXPECT_NE(it, world.under_way.end()) << text;
    OperationEnd end;
    end.action = it->action;
    end.how = how;
    end.wall = world.wall;
    end.boot = world.boot;
    world.under_way.erase(it);
    return end;
  }
  void Done(const std::string& text) {
    OperationEnd end = Take(text, OperationEnd::How::kDone);
    if (end.action.kind == Action::Kind::kEnsureVolumes) world.volumes_ready = true;
    if (end.action.kind == Action::Kind::kEnsureSandbox) {
      world.sandbox_ready = world.sandbox_exists = true;
      end.pod_ips = {"10.88.0.2"};
    }
    if (end.action.kind == Action::Kind::kStart) {
      end.started = StartedContainer{};
      end.started->id = ContainerId(StrCat(end.action.container, "-", end.action.attempt));
      end.started->started_at = world.wall;
      end.started->user = EffectiveUser{7, 0, {}};
      Shows(end.action);
    }
    world.ended.push_back(std::move(end));
  }
  // The runtime shows the container.
  void Shows(const Action& start) {
    ContainerFact fact;
    fact.observed.id = ContainerId(StrCat(start.container, "-", start.attempt));
    fact.observed.name = start.container;
    fact.observed.attempt = start.attempt;
    fact.observed.started_at = world.wall;
    for (const ContainerFact& known : world.containers) {
      if (known.observed.id == fact.observed.id) return;
    }
    world.containers.push_back(fact);
  }
  void Failed(const std::string& text, const std::string& why) {
    OperationEnd end = Take(text, OperationEnd::How::kFailed);
    end.error = why;
    if (end.action.kind == Action::Kind::kStart) {
      end.start_failure = StartFailure{StartFailure::Phase::kCreate, Internal(why)};
    }
    world.ended.push_back(std::move(end));
  }
  void Cancelled(const std::string& text) {
    world.ended.push_back(Take(text, OperationEnd::How::kCancelled));
  }
  void RunAll() {
    Begin();
    Done("ensure volumes");
    Done("ensure sandbox");
    Begin();
    Done("start a#0");
    Begin();
    Done("start b#0");
    Begin();
    ASSERT_EQ(world.last.status.phase(), "Running");
  }

  PodWorld world{kTwo};
};

TEST_F(OperationsTest, VolumesAndSandboxGoSideBySideAndStartsWaitForBoth) {
  EXPECT_EQ(Begin(), (Actions{"ensure volumes", "ensure sandbox"}));
  EXPECT_EQ(Begin(), Actions{}) << "what is under way is not begun again";
  Done("ensure sandbox");
  EXPECT_EQ(Begin(), Actions{}) << "the volumes are not there";
  EXPECT_EQ(world.last.status.podip(), "10.88.0.2");
  Done("ensure volumes");
  EXPECT_EQ(Begin(), (Actions{"start a#0"})) << "one after the other";
  Done("start a#0");
  EXPECT_EQ(Begin(), (Actions{"start b#0"}));
  EXPECT_EQ(world.State("a"), "running");
  Done("start b#0");
  EXPECT_EQ(Begin(), Actions{});
  EXPECT_EQ(world.last.status.phase(), "Running");
  EXPECT_EQ(world.Status("a").user().linux().uid(), 7);
}

// As with a kubelet: nothing is told of a container before its sandbox stands.
TEST_F(OperationsTest, EachContainerIsToldOfInItsTurn) {
  const auto reasons = [this] {
    Actions out;
    for (const std::string& event : std::exchange(world.events, {})) {
      out.push_back(event.substr(0, event.find(':')));
    }
    return out;
  };
  Begin();
  Done("ensure volumes");
  Begin();
  EXPECT_EQ(reasons(), Actions{}) << "there is no sandbox yet";
  Failed("ensure sandbox", "no address");
  Begin();
  EXPECT_EQ(reasons(), Actions{"FailedCreatePodSandBox"});
  world.Pass(std::chrono::seconds(10));
  Begin();
  Done("ensure sandbox");
  Begin();
  EXPECT_EQ(reasons(), Actions{"Pulled"});
  Failed("start a#0", "no such file");
  Begin();
  EXPECT_EQ(reasons(), (Actions{"Failed", "Pulled"}));
  Done("start b#0");
  world.Pass(std::chrono::seconds(10));
  Begin();
  EXPECT_EQ(reasons(), (Actions{"Created", "Started"})) << "of a it was told already";
  Done("start a#0");
  Begin();
  EXPECT_EQ(reasons(), (Actions{"Created", "Started"}));
}

// Half a second, doubled, at most two minutes and two seconds: a kubelet's.
TEST_F(OperationsTest, VolumesAreTriedAgainLaterAndLater) {
  EXPECT_EQ(Begin(), (Actions{"ensure volumes", "ensure sandbox"}));
  Done("ensure sandbox");
  for (const int milliseconds :
       {500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 122000, 122000}) {
    Failed("ensure volumes", "no token yet");
    EXPECT_EQ(Begin(), Actions{}) << milliseconds;
    ASSERT_TRUE(world.last.wake_at);
    EXPECT_EQ(*world.last.wake_at - world.boot, std::chrono::milliseconds(milliseconds));
    world.Pass(std::chrono::milliseconds(milliseconds));
    EXPECT_EQ(Begin(), Actions{"ensure volumes"});
  }
}

TEST_F(OperationsTest, AStartThatFailsHoldsUpNoOther) {
  Begin();
  Done("ensure volumes");
  Done("ensure sandbox");
  Begin();
  Failed("start a#0", "no such file");
  EXPECT_EQ(Begin(), (Actions{"start b#0"}));
  EXPECT_EQ(world.State("a"), "waiting CreateContainerError");
  world.Pass(std::chrono::seconds(10));
  Done("start b#0");
  EXPECT_EQ(Begin(), (Actions{"start a#0"}));
}

TEST_F(OperationsTest, TheRuntimeMayShowAStartBeforeItsEndAndItsExitToo) {
  Begin();
  Done("ensure volumes");
  Done("ensure sandbox");
  Begin();
  const Action start = world.last.begin.at(0);
  Shows(start);
  EXPECT_EQ(Begin(), Actions{});
  EXPECT_EQ(world.State("a"), "running");
  Done("start a#0");
  world.Look();
  EXPECT_EQ(world.Status("a").user().linux().uid(), 7) << "the end adds what only it knows";

  PodWorld fresh(kTwo);
  std::swap(world, fresh);
  Begin();
  Done("ensure volumes");
  Done("ensure sandbox");
  Begin();
  Shows(start);
  world.Exit("a", 3);
  world.Look();
  EXPECT_EQ(world.Status("a").laststate().terminated().exitcode() +
                world.Status("a").state().terminated().exitcode(),
            3);
  const auto memory = world.memory.containers["a"].last;
  Done("start a#0");
  world.Look();
  EXPECT_FALSE(world.memory.containers["a"].current) << "it is not brought back by a late end";
  EXPECT_EQ(world.memory.containers["a"].last, memory);
}

TEST_F(OperationsTest, AStartUnderWayKeepsTheImageThatWasDecided) {
  Begin();
  Done("ensure volumes");
  Done("ensure sandbox");
  Begin();
  world.images["x"].id = "sha256:2";  // the name means another image by now
  EXPECT_EQ(Begin(), Actions{});
  EXPECT_EQ(world.Status("a").imageid(), "sha256:1");
}

TEST_F(OperationsTest, ADeletionCancelsWhatSetsUpAndWaitsForWhatCannotBe) {
  Begin();
  Done("ensure volumes");
  Done("ensure sandbox");
  Begin();
  world.deletion_grace = std::chrono::seconds(5);
  EXPECT_EQ(Begin(), Actions{}) << "its outcome decides what there is to stop";
  EXPECT_EQ(Texts(world.last.cancel), (Actions{"start a#0"}));
  EXPECT_EQ(world.last.status.phase(), "Pending") << "not terminal while something may run";
  // It ran all the same: it is stopped.
  Done("start a#0");
  EXPECT_EQ(Begin(), (Actions{"signal a 15"}));
  Done("signal a 15");
  world.Exit("a", 0);
  EXPECT_EQ(Begin(), (Actions{"remove a#0"}));
  world.containers.clear();
  Done("remove a#0");
  EXPECT_EQ(Begin(), (Actions{"remove sandbox"}));
  world.sandbox_exists = world.sandbox_ready = false;
  Done("remove sandbox");
  EXPECT_EQ(Begin(), (Actions{"clean up"}));
}

TEST_F(OperationsTest, ACancelledStartLeavesNoTrace) {
  Begin();
  Done("ensure volumes");
  Done("ensure sandbox");
  Begin();
  world.deletion_grace = std::chrono::seconds(5);
  Begin();
  Cancelled("start a#0");
  EXPECT_EQ(Begin(), (Actions{"remove sandbox"}));
  EXPECT_EQ(world.memory.containers["a"].attempts, 0u);
  EXPECT_EQ(world.last.status.phase(), "Failed");
}

TEST_F(OperationsTest, VolumesThatHangHoldUpTheCleanUpOnly) {
  Begin();
  Done("ensure sandbox");
  world.deletion_grace = std::chrono::seconds(5);
  EXPECT_EQ(Begin(), (Actions{"remove sandbox"})) << "its addresses are free for others";
  world.sandbox_exists = world.sandbox_ready = false;
  Done("remove sandbox");
  EXPECT_EQ(Begin(), Actions{});
  Done("ensure volumes");
  EXPECT_EQ(Begin(), (Actions{"clean up"}));
}

TEST_F(OperationsTest, ASignalThatHangsDoesNotHoldUpTheKill) {
  RunAll();
  world.deletion_grace = std::chrono::seconds(5);
  EXPECT_EQ(Begin(), (Actions{"signal a 15", "signal b 15"}));
  Done("signal b 15");
  world.Pass(std::chrono::seconds(5));
  EXPECT_EQ(Begin(), (Actions{"kill b"}));
  world.Exit("b", 137, 9);
  Done("kill b");
  EXPECT_EQ(Begin(), (Actions{"remove b#0"}));
  world.Pass(std::chrono::seconds(2));  // what every container gets, counted from its end
  EXPECT_EQ(Begin(), (Actions{"kill a"}));
}

TEST_F(OperationsTest, RemovingAnOldRunHoldsUpNoRestart) {
  RunAll();
  world.Exit("a", 1);
  EXPECT_EQ(Begin(), (Actions{"remove a#0", "start a#1"}));
}

TEST_F(OperationsTest, WhatFailedIsTriedAgainAfterTenSecondsAndWhatWasNotEnoughAfterOne) {
  RunAll();
  world.deletion_grace = std::chrono::seconds(5);
  Begin();
  Failed("signal a 15", "no such process");
  EXPECT_EQ(Begin(), Actions{});
  EXPECT_EQ(world.events.back(),
            "FailedKillPod: error killing pod: failed to \"KillContainer\" for \"a\" with "
            "KillContainerError: \"no such process\"");
  ASSERT_TRUE(world.last.wake_at);
  world.Pass(std::chrono::seconds(10));
  EXPECT_EQ(Begin().at(0), "signal a 15");

  // Of a container that is not ours: nothing in its memory spaces the kills.
  PodWorld other(kTwo);
  std::swap(world, other);
  RunAll();
  ContainerFact foreign = world.containers.at(0);
  foreign.observed.id = ContainerId("a-older");
  world.containers.insert(world.containers.begin(), foreign);
  EXPECT_EQ(Begin(), (Actions{"kill a"}));
  Done("kill a");
  EXPECT_EQ(Begin(), Actions{}) << "not at once again";
  world.Pass(std::chrono::seconds(1));
  EXPECT_EQ(Begin(), (Actions{"kill a"}));
}

TEST_F(OperationsTest, WhatTakesTooLongIsToldOnce) {
  Begin();
  world.Pass(std::chrono::seconds(122));
  world.Look();
  EXPECT_TRUE(world.last.overdue.empty());
  world.Pass(std::chrono::seconds(1));
  world.Look();
  EXPECT_EQ(Texts(world.last.overdue), (Actions{"ensure volumes", "ensure sandbox"}));
  EXPECT_EQ(world.last.events.at(0).reason, "FailedMount");
  EXPECT_EQ(world.last.events.at(0).message,
            "Unable to attach or mount volumes: unmounted volumes=[], unattached volumes=[], "
            "failed to process volumes=[]: timed out waiting for the condition");
  EXPECT_EQ(world.last.events.at(1).reason, "FailedSync");
  for (OperationFact& o : world.under_way) o.overdue = true;
  world.Look();
  EXPECT_TRUE(world.last.overdue.empty());
  EXPECT_TRUE(world.last.events.empty());
}

// Which of them it is nobody has said: those that somebody else serves, if there are any.
TEST_F(OperationsTest, OfVolumesThatHangThoseAreNamedThatOthersServe) {
  const auto add = [this](const char* name) {
    corev1::Volume* const volume = world.pod.mutable_spec()->add_volumes();
    volume->set_name(name);
    return volume->mutable_volumesource();
  };
  add("scratch")->mutable_emptydir();
  add("share")->mutable_nfs();
  add("data")->mutable_persistentvolumeclaim();
  Begin();
  world.Pass(std::chrono::seconds(123));
  world.Look();
  EXPECT_NE(world.events.at(0).find("unmounted volumes=[data share], unattached"),
            std::string::npos)
      << world.events.at(0);
}

TEST_F(OperationsTest, ASandboxThatCannotBeRemovedIsToldByItsCode) {
  Begin();
  Done("ensure sandbox");
  world.deletion_grace = std::chrono::seconds(5);
  EXPECT_EQ(Begin(), (Actions{"remove sandbox"}));
  Failed("remove sandbox", "a \"veth\" stays");
  Begin();
  EXPECT_EQ(world.events.back(),
            "FailedKillPod: error killing pod: failed to \"KillPodSandbox\" for \"u1\" with "
            "KillPodSandboxError: \"a \\\"veth\\\" stays\"");
}

TEST_F(OperationsTest, FailedVolumesAreToldAndTheSandboxGoesOn) {
  Begin();
  Failed("ensure volumes", "no such host path");
  world.Look();
  EXPECT_EQ(world.events.back(), "FailedMount: no such host path");
  EXPECT_EQ(Texts(world.last.begin), Actions{});
  Done("ensure sandbox");
  EXPECT_EQ(Begin(), Actions{}) << "the failure is waited out";
  world.Pass(std::chrono::seconds(10));
  EXPECT_EQ(Begin(), (Actions{"ensure volumes"}));
}

TEST_F(OperationsTest, OfBlockDevicesIsToldWithAReasonOfTheirs) {
  const std::pair<std::string, std::string> rows[] = {
      {"MapVolume.SetUpDevice failed for volume \"pv\" : no", "FailedMapVolume"},
      {"MapVolume.NodeAffinity check failed for volume \"pv\" : no", "FailedMount"},
      {"MountVolume.SetUp failed for volume \"pv\" : no", "FailedMount"}};
  for (const auto& [error, reason] : rows) {
    Begin();
    Failed("ensure volumes", error);
    world.Look();
    EXPECT_EQ(world.events.back(), reason + ": " + error);
    world.Pass(std::chrono::seconds(10));
  }
}

TEST_F(OperationsTest, WhatCouldNotBeMountedIsTriedAgainWhenItHasChanged) {
  world.inputs = {false, 1};
  Begin();
  Failed("ensure volumes", "PVC is not bound");
  world.ended.back().inputs_version = 1;
  Done("ensure sandbox");
  EXPECT_EQ(Begin(), Actions{});
  world.inputs = {true, 2};
  EXPECT_EQ(Begin(), Actions{}) << "not all of it is there";
  world.inputs = {false, 2};
  EXPECT_EQ(Begin(), (Actions{"ensure volumes"})) << "before the ten seconds are over";
}

TEST_F(OperationsTest, AnotherImageOfTheSamePodRestartsItsContainer) {
  RunAll();
  const auto before = world.memory.containers["b"];
  world.pod.mutable_spec()->mutable_containers(0)->set_image("y");
  world.images["y"] = {ImageFact::State::kPresent, "sha256:9", "docker.io/y:1", "", ""};
  EXPECT_EQ(Begin(), (Actions{"signal a 15"}));
  EXPECT_EQ(world.events.back(), "Killing: Container a definition changed, will be restarted");
  Done("signal a 15");
  world.Pass(std::chrono::seconds(30));
  EXPECT_EQ(Begin(), (Actions{"kill a"})) << "after the pod's grace period";
  world.Exit("a", 137, 9);
  Done("kill a");
  EXPECT_EQ(Begin(), (Actions{"remove a#0", "start a#1"}));
  EXPECT_EQ(world.Status("a").imageid(), "sha256:9");
  EXPECT_EQ(world.memory.containers["b"].current, before.current);
}

TEST_F(OperationsTest, ARestartForAnImageIsCarriedOutThoughTheImageIsTakenBack) {
  RunAll();
  world.pod.mutable_spec()->mutable_containers(0)->set_image("y");
  EXPECT_EQ(Begin(), (Actions{"signal a 15"}));
  Done("signal a 15");
  Begin();
  world.pod.mutable_spec()->mutable_containers(0)->set_image("x");
  world.Pass(std::chrono::seconds(30));
  EXPECT_EQ(Begin(), (Actions{"kill a"})) << "it has had its signal";
  world.Exit("a", 137, 9);
  Done("kill a");
  EXPECT_EQ(Begin(), (Actions{"remove a#0", "start a#1"}));
}

TEST_F(OperationsTest, BetweenTwoRunsNothingIsToldForASecond) {
  const auto told_at = [&] { return BetweenRuns(world.memory, world.wall, world.boot); };
  RunAll();
  world.pod.mutable_spec()->mutable_containers(0)->set_image("y");
  world.images["y"] = {ImageFact::State::kPresent, "sha256:9", "docker.io/y:1", "", ""};
  Begin();
  EXPECT_FALSE(told_at()) << "it runs still";
  world.Exit("a", 143, 15);
  const BootTime ended = world.boot;
  Done("signal a 15");
  EXPECT_EQ(Begin(), (Actions{"remove a#0", "start a#1"}));
  ASSERT_TRUE(told_at());
  EXPECT_EQ(*told_at() - ended, std::chrono::seconds(1));
  world.Pass(std::chrono::seconds(1));
  EXPECT_FALSE(told_at()) << "it takes long";
}

TEST_F(OperationsTest, AnEndThatNobodyWantedIsToldAtOnce) {
  RunAll();
  world.Exit("a", 1);
  Begin();
  EXPECT_FALSE(BetweenRuns(world.memory, world.wall, world.boot));
}

}  // namespace
}  // namespace holdfast::agent
