// SPDX-License-Identifier: Apache-2.0
// The container's cgroup on either kind of host, time namespaces, and propagation of volumes.
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include <algorithm>

#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using State = LaunchOutcome::State;
using Kind = model::MountPlan::Kind;

class CgroupTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    if (IsSkipped()) return;
    struct statfs fs{};
    ASSERT_EQ(::statfs("/sys/fs/cgroup", &fs), 0);
    unified_ = fs.f_type == CGROUP2_SUPER_MAGIC;
    const std::string top = unified_ ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
    group_ = top + "/holdfast-launch-test-" + std::to_string(::getpid());
    ASSERT_EQ(::mkdir(group_.c_str(), 0755), 0) << std::strerror(errno);
  }
  void TearDown() override {
    if (!group_.empty()) {
      EXPECT_EQ(::rmdir(group_.c_str()), 0) << std::strerror(errno);
    }
    LaunchTest::TearDown();
  }

  model::FdIndex OpenGroup() {
    return AddFd(UniqueFd(::open(group_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  }

  model::CgroupPlan InGroup() {
    model::CgroupPlan cgroup;
    if (unified_) {
      cgroup.unified = OpenGroup();
    } else {
      cgroup.attach = {OpenGroup()};
    }
    return cgroup;
  }

  model::LaunchPlan WithGroup(std::vector<std::string> argv) {
    model::LaunchPlan plan = BasePlan(std::move(argv));
    plan.cgroup = InGroup();
    model::MountPlan mount;
    mount.no_suid = mount.no_dev = mount.no_exec = true;
    if (unified_) {
      mount.kind = Kind::kCgroup2;
      mount.destination = "/sys/fs/cgroup";
      mount.read_only = true;
      plan.mounts.push_back(mount);
      return plan;
    }
    mount.kind = Kind::kTmpfs;
    mount.destination = "/sys/fs/cgroup";
    plan.mounts.push_back(mount);
    mount.kind = Kind::kCgroup1;
    mount.destination = "/sys/fs/cgroup/pids";
    mount.options = "pids";
    mount.read_only = true;
    plan.mounts.push_back(mount);
    plan.read_only_paths.push_back("/sys/fs/cgroup");
    return plan;
  }

  std::string InContainer(const std::string& file) const {
    return (unified_ ? "/sys/fs/cgroup/" : "/sys/fs/cgroup/pids/") + file;
  }

  bool unified_ = false;
  std::string group_;
};

TEST_F(CgroupTest, TheContainerIsInItsGroupAndSeesNothingElse) {
  const RunResult procs = Run(WithGroup({"probe", "cat", InContainer("cgroup.procs")}));
  ASSERT_EQ(procs.outcome.state, State::kRunning) << Why(procs);
  EXPECT_EQ(procs.output, "1\n");
  const RunResult own = Run(WithGroup({"probe", "cat", "/proc/self/cgroup"}));
  EXPECT_NE(own.output.find(unified_ ? "0::/\n" : ":pids:/\n"), std::string::npos) << own.output;
}

// RT-10
TEST_F(CgroupTest, NothingOfItCanBeWritten) {
  for (const std::string& file :
       {InContainer("cgroup.procs"), InContainer("pids.max"), InContainer("notify_on_release"),
        std::string("/sys/fs/cgroup/x")}) {
    const RunResult run = Run(WithGroup({"probe", "write", file, "1"}));
    ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
    EXPECT_EQ(run.output.find("written"), std::string::npos) << run.output;
  }
}

// PR-16
TEST_F(CgroupTest, AnExecIsInTheGroupToo) {
  Running container = Start(WithGroup({"probe", "sleep"}));
  ASSERT_EQ(container.outcome.state, State::kRunning)
      << container.outcome.step
      << (container.outcome.error ? container.outcome.error->message() : "");
  model::ExecPlan plan;
  plan.target = AddFd(UniqueFd(container.launch->DuplicatePidFd().Release()));
  plan.cgroup = InGroup();
  plan.process = BasePlan({"probe", "cat", InContainer("cgroup.procs")}).process;
  const RunResult run = Run(plan);
  EXPECT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(std::ranges::count(run.output, '\n'), 2) << run.output;
  Stop(container);
}

TEST_F(LaunchTest, APrivateTimeNamespaceIsAnother) {
  if (!context_.facts.time_namespace) GTEST_SKIP() << "no time namespaces in this kernel";
  model::LaunchPlan plan = BasePlan({"probe", "facts"});
  plan.namespaces.new_time = true;
  const RunResult run = Run(plan);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_NE(run.Fact("ns.time"), std::filesystem::read_symlink("/proc/self/ns/time").string());
}

// A mount made by the host after the start, or by the container, shows on the other side as asked.
TEST_F(LaunchTest, PropagationIsAsAskedFor) {
  using Propagation = model::MountPlan::Propagation;
  const std::string volume = Path("volume");
  ASSERT_EQ(::mount("none", volume.c_str(), "tmpfs", 0, nullptr), 0);
  ASSERT_EQ(::mount("none", volume.c_str(), nullptr, MS_SHARED, nullptr), 0);
  const std::string late = volume + "/late";
  std::filesystem::create_directory(late);
  for (const Propagation propagation :
       {Propagation::kPrivate, Propagation::kSlave, Propagation::kShared}) {
    model::LaunchPlan plan = BasePlan({"probe", "sleep"});
    model::MountPlan mount;
    mount.source = AddTree(volume);
    mount.destination = "/data";
    mount.propagation = propagation;
    plan.mounts.push_back(mount);
    Running container = Start(plan);
    ASSERT_EQ(container.outcome.state, State::kRunning);
    EXPECT_EQ(::mount("none", late.c_str(), "tmpfs", 0, nullptr), 0);
    const std::string mounts = *sys::ReadFileAt(
        AT_FDCWD, "/proc/" + std::to_string(container.launch->pid()) + "/mountinfo", 1 << 20);
    EXPECT_EQ(mounts.find(" /data/late ") != std::string::npos,
              propagation != Propagation::kPrivate);
    EXPECT_EQ(mounts.find(" shared:") != std::string::npos, propagation == Propagation::kShared);
    ::umount2(late.c_str(), MNT_DETACH);
    Stop(container);
  }
  ::umount2(volume.c_str(), MNT_DETACH);
}

TEST_F(LaunchTest, ALaunchersSmallNamespaceShowsOnlyWhatItWasGiven) {
  auto child = sys::Clone(0);
  ASSERT_TRUE(child.has_value());
  if (child->pid == 0) {
    const std::vector<std::string> visible = {directory_};
    if (!EnterLauncherMountNamespace(visible).has_value()) ::_exit(1);
    if (!MakeLaunchContext().has_value()) ::_exit(2);
    auto names = sys::ListDirAt(AT_FDCWD, "/");
    if (!names || names->size() > 3) ::_exit(3);  // /tmp or the like, dev, proc
    if (::access((directory_ + "/image/bin/probe").c_str(), X_OK) != 0) ::_exit(4);
    auto mounts = sys::ReadFileAt(AT_FDCWD, "/proc/self/mountinfo", 1 << 20);
    if (!mounts || std::ranges::count(*mounts, '\n') > 6) ::_exit(5);
    if (::mkdir("/x", 0755) == 0) ::_exit(6);
    ::_exit(0);
  }
  pollfd event{child->pidfd.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&event, 1, 10000), 1);
  auto exit = sys::ReapExit(child->pidfd.get());
  ASSERT_TRUE(exit && *exit);
  EXPECT_EQ((*exit)->ShellCode(), 0);
}

}  // namespace
}  // namespace holdfast::runtime
