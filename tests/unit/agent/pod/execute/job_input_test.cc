// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/job_input.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

using std::chrono::seconds;

std::shared_ptr<corev1::Pod> DebuggedPod() {
  auto pod = std::make_shared<corev1::Pod>();
  pod->mutable_spec()->add_containers()->set_name("web");
  auto* shell = pod->mutable_spec()->add_ephemeralcontainers();
  shell->mutable_ephemeralcontainercommon()->set_name("shell");
  shell->set_targetcontainername("web");
  return pod;
}

PodMemory MemoryOf(const std::shared_ptr<corev1::Pod>&) {
  PodMemory memory;
  memory.pod_ips = {"10.0.0.7", "fd00::7"};
  ContainerMemory& web = memory.containers["web"];
  web.attempts = 3;
  web.current.emplace();
  web.current->id = ContainerId("web-2");
  web.current->started_at = {seconds(100)};
  web.stop.emplace();
  web.stop->begun = {seconds(140)};
  ContainerMemory& shell = memory.containers["shell"];
  shell.attempts = 1;
  shell.launch.emplace();
  shell.launch->image_id = "sha256:1";
  shell.current.emplace();
  shell.current->id = ContainerId("shell-0");
  shell.before_last.emplace();
  shell.before_last->id = ContainerId("shell-old");
  return memory;
}

TEST(JobInputTest, AStartTakesWhatWasDecidedAndWhoseProcessesItSees) {
  const auto pod = DebuggedPod();
  const PodJobInput input = JobInputOf({Action::Kind::kStart, "shell"}, pod, MemoryOf(pod));
  EXPECT_EQ(input.pod, pod);
  EXPECT_EQ(input.image_id, "sha256:1");
  EXPECT_EQ(input.pod_ips, (std::vector<std::string>{"10.0.0.7", "fd00::7"}));
  EXPECT_EQ(input.target, ContainerId("web-2"));
  EXPECT_EQ(input.before_last, ContainerId("shell-old"));
  EXPECT_TRUE(input.attempts.empty());
  EXPECT_TRUE(input.running.empty());
}

TEST(JobInputTest, ASandboxTakesTheNextAttemptsAndAResizeWhatRunsOfThePodsOwn) {
  const auto pod = DebuggedPod();
  const PodMemory memory = MemoryOf(pod);
  const auto sandbox = JobInputOf({Action::Kind::kEnsureSandbox}, pod, memory);
  EXPECT_EQ(sandbox.attempts, (std::map<std::string, uint32_t>{{"shell", 1}, {"web", 3}}));
  EXPECT_TRUE(sandbox.running.empty());
  const auto resize = JobInputOf({Action::Kind::kResize}, pod, memory);
  EXPECT_EQ(resize.running, (std::map<std::string, ContainerId>{{"web", ContainerId("web-2")}}))
      << "an ephemeral container has no amounts";
}

TEST(HookInputTest, ASleepGoesOnWhereItWas) {
  const auto pod = DebuggedPod();
  const PodMemory memory = MemoryOf(pod);
  const auto after =
      HookInputOf({Action::Kind::kPostStart, "web"}, pod, memory, "192.0.2.1", {seconds(103)});
  EXPECT_EQ(after.slept, seconds(3));
  EXPECT_EQ(after.pod_ip, "10.0.0.7");
  const auto before =
      HookInputOf({Action::Kind::kPreStop, "web"}, pod, memory, "192.0.2.1", {seconds(139)});
  EXPECT_EQ(before.slept, seconds(0)) << "the clock was put back";
  pod->mutable_spec()->set_hostnetwork(true);
  EXPECT_EQ(HookInputOf({Action::Kind::kPreStop, "web"}, pod, memory, "192.0.2.1", {}).pod_ip,
            "192.0.2.1");
}

}  // namespace
}  // namespace holdfast::agent
