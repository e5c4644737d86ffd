// SPDX-License-Identifier: Apache-2.0
// hostUsers: false: a container whose root is nobody on the host.
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using State = LaunchOutcome::State;

class UserNamespaceTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    if (IsSkipped()) return;
    if (!context_.facts.user_namespace) GTEST_SKIP() << "kernel lacks user namespaces";
    plan_.hostname = "web-0";
    plan_.shm_size_bytes = 1 << 20;
    plan_.uid_map = plan_.gid_map = {{0, kBase, 65536}};
    const SandboxFds pod = MakeSandbox(plan_);
    const auto copy = sys::CloneTree(AT_FDCWD, directory_, false);
    ASSERT_TRUE(copy.has_value()) << copy.error().message();
    if (!sys::SetIdMap(copy->get(), pod.user.get(), false)) {
      GTEST_SKIP() << "kernel lacks id maps for the file system of " << directory_;
    }
  }

  model::LaunchPlan InPod(const SandboxFds& pod, std::vector<std::string> argv) {
    model::LaunchPlan plan = BasePlan(std::move(argv));
    plan.namespaces.user = AddFd(Duplicate(pod.user));
    plan.namespaces.network = AddFd(Duplicate(pod.network));
    plan.namespaces.ipc = AddFd(Duplicate(pod.ipc));
    plan.namespaces.uts = AddFd(Duplicate(pod.uts));
    plan.root.owner = kBase;
    plan.host_devices = AddTree("/dev");
    model::MountPlan shm;
    shm.kind = model::MountPlan::Kind::kShared;
    shm.source = AddFd(Duplicate(pod.shm));
    shm.destination = "/dev/shm";
    shm.no_suid = shm.no_dev = shm.no_exec = true;
    plan.mounts.push_back(shm);
    return plan;
  }

  static uint32_t OwnerOf(const std::string& path) {
    struct stat st{};
    EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
    return st.st_uid;
  }

  model::SandboxPlan plan_;
};

TEST_F(UserNamespaceTest, RootInsideIsNobodyOutside) {
  const SandboxFds pod = MakeSandbox(plan_);
  ASSERT_TRUE(pod.user && pod.network && pod.ipc && pod.uts && pod.shm);
  Running running = Start(InPod(pod, {"probe", "sleep"}));
  ASSERT_EQ(running.outcome.state, State::kRunning)
      << running.outcome.step << (running.outcome.error ? running.outcome.error->message() : "");
  const std::string proc = "/proc/" + std::to_string(running.launch->pid());
  std::ifstream map(proc + "/uid_map");
  uint32_t inside = 1, outside = 0, count = 0;
  map >> inside >> outside >> count;
  EXPECT_EQ(inside, 0u);
  EXPECT_EQ(outside, kBase);
  EXPECT_EQ(count, 65536u);
  EXPECT_EQ(OwnerOf(proc), kBase);
  // The kernel's own word that every namespace belongs to the pod's user namespace.
  struct stat user{};
  ASSERT_EQ(::fstat(pod.user.get(), &user), 0);
  for (const char* name : {"mnt", "pid", "net", "ipc", "uts", "cgroup"}) {
    const UniqueFd ns(::open((proc + "/ns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
    const UniqueFd owner(::ioctl(ns.get(), 0xb701));  // NS_GET_USERNS
    struct stat st{};
    ASSERT_EQ(::fstat(owner.get(), &st), 0) << name;
    EXPECT_EQ(st.st_ino, user.st_ino) << name;
  }
  Stop(running);
}

TEST_F(UserNamespaceTest, TheRecipeGivesWhatEveryContainerGets) {
  const sys::HostFacts found = context_.facts;
  for (const int rung : {0, 1, 2}) {
    if (rung == 0 && !found.overlay_lower_fd) continue;
    context_.facts = found;
    context_.facts.overlay_lower_fd = rung == 0;
    context_.facts.overlay_lower_add = rung <= 1 && found.overlay_lower_add;
    context_.facts.open_tree_detached = rung == 0 && found.open_tree_detached;
    SCOPED_TRACE(testing::Message() << "rung " << rung);
    const SandboxFds pod = MakeSandbox(plan_);
    const RunResult facts = Run(InPod(pod, {"probe", "facts"}));
    ASSERT_EQ(facts.outcome.state, State::kRunning) << Why(facts);
    EXPECT_EQ(facts.Fact("pid"), "1");
    EXPECT_EQ(facts.Fact("uid"), "0");
    EXPECT_EQ(facts.Fact("hostname"), "web-0");
    EXPECT_EQ(facts.Fact("lo"), "up");
    EXPECT_EQ(facts.Fact("fds"), "0 1 2");
    EXPECT_EQ(facts.Fact("CapEff"), "00000000a80425fb");
    EXPECT_EQ(facts.Fact("CapBnd"), "00000000a80425fb");

    const RunResult devices =
        Run(InPod(pod, {"probe", "stat", "/dev/null", "/dev/zero", "/dev/urandom", "/dev/pts/ptmx",
                        "/proc/timer_list", "/sys/class", "/dev/mqueue"}));
    ASSERT_EQ(devices.outcome.state, State::kRunning) << Why(devices);
    EXPECT_EQ(devices.Fact("/dev/null"), "char 1:3 666 65534:65534") << devices.output;
    EXPECT_EQ(devices.Fact("/dev/zero"), "char 1:5 666 65534:65534");
    EXPECT_EQ(devices.Fact("/dev/pts/ptmx"), "char 5:2 666 0:0");
    if (std::filesystem::exists("/proc/timer_list")) {
      EXPECT_EQ(devices.Fact("/proc/timer_list"), "char 1:3 666 65534:65534") << "masked";
    }

    const RunResult write = Run(InPod(pod, {"probe", "write", "/dev/null", "x"}));
    EXPECT_EQ(write.output, "/dev/null written\n");
    const RunResult sealed =
        Run(InPod(pod, {"probe", "write", "/proc/sys/kernel/domainname", "x"}));
    EXPECT_EQ(sealed.output.find(" written"), std::string::npos) << sealed.output;
  }
}

TEST_F(UserNamespaceTest, FilesOfTheImageBelongToRootAndNewOnesToThePod) {
  WriteFile("image/old", "old");
  ASSERT_EQ(::lchown(Path("image/old").c_str(), 1000, 1000), 0);
  const SandboxFds pod = MakeSandbox(plan_);
  model::LaunchPlan plan = InPod(pod, {"probe", "write", "/new", "x"});
  RunResult run = Run(plan);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_NE(run.output.find(" written\n"), std::string::npos) << run.output;
  EXPECT_EQ(OwnerOf(Path("scratch/upper/new")), kBase);
  EXPECT_EQ(OwnerOf(Path("scratch/upper")), kBase);

  // A user of the image writes its own file, which is copied up with its owner.
  plan = InPod(pod, {"probe", "write", "/old", "y"});
  plan.process.uid = plan.process.gid = 1000;
  plan.process.capabilities = {};
  run = Run(plan);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_NE(run.output.find(" written\n"), std::string::npos) << run.output;
  EXPECT_EQ(OwnerOf(Path("scratch/upper/old")), kBase + 1000);
  EXPECT_EQ(OwnerOf(Path("image/old")), 1000u);
}

TEST_F(UserNamespaceTest, AVolumeKeepsItsOwnersOnDisk) {
  const SandboxFds pod = MakeSandbox(plan_);
  const model::FdIndex volume = AddTree(Path("volume"));
  ASSERT_TRUE(sys::SetIdMap(fds_[static_cast<size_t>(volume)].get(), pod.user.get(), true));
  model::LaunchPlan plan = InPod(pod, {"probe", "write", "/data/file", "x"});
  model::MountPlan mount;
  mount.source = volume;
  mount.destination = "/data";
  plan.mounts.push_back(mount);
  const RunResult run = Run(plan);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_NE(run.output.find(" written\n"), std::string::npos) << run.output;
  EXPECT_EQ(OwnerOf(Path("volume/file")), 0u);
}

TEST_F(UserNamespaceTest, ExecEntersTheUserNamespace) {
  const SandboxFds pod = MakeSandbox(plan_);
  Running running = Start(InPod(pod, {"probe", "sleep"}));
  ASSERT_EQ(running.outcome.state, State::kRunning)
      << running.outcome.step << (running.outcome.error ? running.outcome.error->message() : "");
  model::ExecPlan exec;
  exec.join_user = true;
  exec.process = BasePlan({"probe", "facts"}).process;
  exec.target = AddFd(UniqueFd(running.launch->DuplicatePidFd().Release()));
  const RunResult run = Run(exec);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.Fact("uid"), "0");
  struct stat user{};
  ASSERT_EQ(::fstat(pod.user.get(), &user), 0);
  EXPECT_EQ(run.Fact("ns.user"), "user:[" + std::to_string(user.st_ino) + "]");
  exec.process.stdio.tty = true;
  exec.process.argv = {"probe", "tty"};
  exec.target = AddFd(UniqueFd(running.launch->DuplicatePidFd().Release()));
  const Running terminal = Start(exec);
  ASSERT_EQ(terminal.outcome.state, State::kRunning)
      << terminal.outcome.step << (terminal.outcome.error ? terminal.outcome.error->message() : "");
  EXPECT_EQ(Reap(*terminal.launch).code, 0);
  Stop(running);
}

TEST_F(UserNamespaceTest, ASharedProcessNamespaceBelongsToIt) {
  const sys::HostFacts found = context_.facts;
  for (const bool detached : {true, false}) {
    context_.facts.open_tree_detached = detached && found.open_tree_detached;
    plan_.init_binary = AddFd(UniqueFd(::open(INIT_BINARY, O_RDONLY | O_CLOEXEC)));
    Running init = Start(plan_);
    ASSERT_EQ(init.outcome.state, State::kRunning)
        << init.outcome.step << (init.outcome.error ? init.outcome.error->message() : "");
    model::LaunchPlan plan = InPod(init.outcome.sandbox, {"probe", "cat", "/proc/1/comm"});
    JoinProcesses(init.outcome.sandbox, plan);
    const RunResult run = Run(plan);
    EXPECT_EQ(run.outcome.state, State::kRunning) << Why(run);
    EXPECT_EQ(run.output, "holdfast-init\n");
    Stop(init);
  }
}

TEST_F(UserNamespaceTest, WhatCannotBeMappedIsRefusedByName) {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  const SandboxFds pod = MakeSandbox(plan_);
  // A procfs can have no id map; it stands for every such file system.
  model::LaunchPlan plan = InPod(pod, {"probe", "facts"});
  plan.root.layers = {"/proc"};
  const RunResult run = Run(plan);
  ASSERT_TRUE(run.outcome.error.has_value());
  EXPECT_EQ(run.outcome.error->code(), Code::kUnsupported) << run.outcome.error->message();
  EXPECT_NE(run.outcome.error->message().find("hostUsers: false"), std::string::npos);
  // Nothing is left behind: no child waits.
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

}  // namespace
}  // namespace holdfast::runtime
