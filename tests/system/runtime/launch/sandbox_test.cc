// SPDX-License-Identifier: Apache-2.0
#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using State = LaunchOutcome::State;

class SandboxTest : public LaunchTest {
 protected:
  static model::SandboxPlan PodPlan() {
    model::SandboxPlan plan;
    plan.hostname = "web-0";
    plan.sysctls = {{"net/ipv4/ip_unprivileged_port_start", "0"}, {"kernel/msgmax", "12345"}};
    plan.shm_size_bytes = 1 << 20;
    return plan;
  }

  model::LaunchPlan InPod(const SandboxFds& pod, std::vector<std::string> argv) {
    model::LaunchPlan plan = BasePlan(std::move(argv));
    plan.namespaces.network = AddFd(Duplicate(pod.network));
    plan.namespaces.ipc = AddFd(Duplicate(pod.ipc));
    plan.namespaces.uts = AddFd(Duplicate(pod.uts));
    model::MountPlan shm;
    shm.kind = model::MountPlan::Kind::kShared;
    shm.source = AddFd(Duplicate(pod.shm));
    shm.destination = "/dev/shm";
    shm.no_suid = shm.no_dev = shm.no_exec = true;
    plan.mounts.push_back(shm);
    return plan;
  }
};

TEST_F(SandboxTest, ContainersOfAPodShareNetworkIpcHostnameAndSharedMemory) {
  const sys::HostFacts found = context_.facts;
  for (const bool detached : {true, false}) {
    if (detached && !found.open_tree_detached) continue;
    context_.facts.open_tree_detached = detached;
    SCOPED_TRACE(testing::Message() << "copies of detached mounts: " << detached);
    const SandboxFds pod = MakeSandbox(PodPlan());
    ASSERT_TRUE(pod.network && pod.ipc && pod.uts && pod.shm);
    EXPECT_FALSE(pod.user);

    const RunResult first = Run(InPod(pod, {"probe", "facts"}));
    ASSERT_EQ(first.outcome.state, State::kRunning) << Why(first);
    const RunResult second = Run(InPod(pod, {"probe", "facts"}));
    ASSERT_EQ(second.outcome.state, State::kRunning) << Why(second);
    for (const char* name : {"net", "ipc", "uts"}) {
      const std::string key = std::string("ns.") + name;
      EXPECT_EQ(first.Fact(key), second.Fact(key));
      const std::string host = std::filesystem::read_symlink(std::string("/proc/self/ns/") + name);
      EXPECT_NE(first.Fact(key), host);
    }
    EXPECT_EQ(first.Fact("hostname"), "web-0");
    EXPECT_EQ(first.Fact("lo"), "up");

    const RunResult sysctls = Run(InPod(pod, {"probe", "cat", "/proc/sys/kernel/msgmax",
                                              "/proc/sys/net/ipv4/ip_unprivileged_port_start"}));
    EXPECT_EQ(sysctls.output, "12345\n0\n");

    const RunResult writer = Run(InPod(pod, {"probe", "write", "/dev/shm/note", "hello"}));
    ASSERT_EQ(writer.outcome.state, State::kRunning) << Why(writer);
    const RunResult reader = Run(InPod(pod, {"probe", "cat", "/dev/shm/note"}));
    EXPECT_EQ(reader.output, "hello");
  }
}

// The file system of /sys belongs to the pod's network namespace: one for all of its containers.
TEST_F(SandboxTest, ASysThatIsReadOnlyForOneContainerIsNotForTheNext) {
  const auto write = [&](const SandboxFds& pod, bool read_only) {
    model::LaunchPlan plan =
        InPod(pod, {"probe", "write", "/sys/class/net/lo/tx_queue_len", "500"});
    for (model::MountPlan& mount : plan.mounts) {
      if (mount.kind == model::MountPlan::Kind::kSysfs) mount.read_only = read_only;
    }
    constexpr uint64_t kNetAdmin = 1 << 12;
    plan.process.capabilities.bounding |= kNetAdmin;
    plan.process.capabilities.permitted |= kNetAdmin;
    plan.process.capabilities.effective |= kNetAdmin;
    const RunResult run = Run(plan);
    EXPECT_EQ(run.outcome.state, State::kRunning) << Why(run);
    return run.output;
  };
  const SandboxFds pod = MakeSandbox(PodPlan());
  Running first =
      Start(InPod(pod, {"probe", "sleep"}));  // the file system lives as long as a mount of it
  ASSERT_EQ(first.outcome.state, State::kRunning);
  EXPECT_EQ(write(pod, false), "/sys/class/net/lo/tx_queue_len written\n");
  EXPECT_EQ(write(pod, true), "/sys/class/net/lo/tx_queue_len Read-only file system\n");
  Stop(first);
}

TEST_F(SandboxTest, AHostNetworkPodKeepsTheHostsNamespaces) {
  model::SandboxPlan plan;
  plan.network = plan.uts = false;
  const SandboxFds pod = MakeSandbox(plan);
  EXPECT_FALSE(pod.network);
  EXPECT_FALSE(pod.uts);
  EXPECT_TRUE(pod.ipc);
  EXPECT_FALSE(pod.shm);
}

TEST_F(SandboxTest, AnInitOfOursIsProcessOneOfASharedProcessNamespace) {
  model::SandboxPlan plan = PodPlan();
  plan.init_binary = AddFd(UniqueFd(::open(INIT_BINARY, O_RDONLY | O_CLOEXEC)));
  Running init = Start(plan);
  ASSERT_EQ(init.outcome.state, State::kRunning)
      << init.outcome.step << (init.outcome.error ? init.outcome.error->message() : "");
  ASSERT_TRUE(init.outcome.sandbox.pid);

  model::LaunchPlan container = BasePlan({"probe", "facts"});
  JoinProcesses(init.outcome.sandbox, container);
  const RunResult run = Run(container);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_NE(run.Fact("pid"), "1");
  container = BasePlan({"probe", "cat", "/proc/1/comm", "/proc/1/status"});
  JoinProcesses(init.outcome.sandbox, container);
  const RunResult status = Run(container);
  EXPECT_TRUE(status.output.starts_with("holdfast-init\n")) << status.output;
  EXPECT_NE(status.output.find("CapEff:\t0000000000000000"), std::string::npos) << status.output;
  EXPECT_NE(status.output.find("NoNewPrivs:\t1"), std::string::npos);

  // Its end is the end of everything in the namespace.
  container = BasePlan({"probe", "sleep"});
  JoinProcesses(init.outcome.sandbox, container);
  Running sleeper = Start(container);
  ASSERT_EQ(sleeper.outcome.state, State::kRunning);
  ASSERT_TRUE(sys::SendSignal(init.launch->pidfd(), SIGKILL).has_value());
  EXPECT_EQ(Reap(*sleeper.launch).signal, SIGKILL);
  // Only now: an init ends after all others of its namespace were reaped.
  EXPECT_EQ(Reap(*init.launch).signal, SIGKILL);
}

// The procfs was made by the sandbox, not by the container: it must be the same to look at.
TEST_F(SandboxTest, AContainersProcfsShowsTheSharedProcessesAndItself) {
  const sys::HostFacts found = context_.facts;
  for (const bool detached : {true, false}) {
    context_.facts.open_tree_detached = detached && found.open_tree_detached;
    model::SandboxPlan plan = PodPlan();
    plan.init_binary = AddFd(UniqueFd(::open(INIT_BINARY, O_RDONLY | O_CLOEXEC)));
    Running init = Start(plan);
    ASSERT_EQ(init.outcome.state, State::kRunning);
    model::LaunchPlan container = BasePlan({"probe", "cat", "/proc/1/comm", "/proc/self/comm"});
    JoinProcesses(init.outcome.sandbox, container);
    EXPECT_EQ(Run(container).output, "holdfast-init\nprobe\n");
    container = BasePlan({"probe", "facts"});
    JoinProcesses(init.outcome.sandbox, container);
    const RunResult facts = Run(container);
    EXPECT_EQ(facts.Fact("sid"), "own");
    EXPECT_EQ(facts.Fact("fds"), "0 1 2");
    container = BasePlan({"probe", "write", "/proc/sys/kernel/core_pattern", "x"});
    JoinProcesses(init.outcome.sandbox, container);
    EXPECT_EQ(Run(container).output, "/proc/sys/kernel/core_pattern Read-only file system\n");
    Stop(init);
  }
}

TEST_F(SandboxTest, ASysctlThatTheKernelRefusesFailsTheSandbox) {
  model::SandboxPlan plan = PodPlan();
  plan.sysctls["net/ipv4/no_such"] = "1";
  auto pending = Launch(context_, plan, {}, std::chrono::seconds(10));
  ASSERT_TRUE(pending.has_value());
  ASSERT_TRUE(pending->Go().has_value());
  const LaunchOutcome outcome = pending->Wait();
  EXPECT_EQ(outcome.state, State::kFailed);
  EXPECT_EQ(outcome.step, "sysctls");
  Reap(*pending);
}

}  // namespace
}  // namespace holdfast::runtime
