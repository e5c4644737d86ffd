// SPDX-License-Identifier: Apache-2.0
// SELinux labels, where the kernel has SELinux. Those of this process and of its files with two categories are as good as
// those of any policy for containers: every policy with categories knows them.
#include <sys/xattr.h>

#include "holdfast/base/strings.h"
#include "holdfast/sys/selinux.h"
#include "runtime/gather/selinux.h"
#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using State = LaunchOutcome::State;

class SelinuxTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    if (IsSkipped()) return;
    if (!sys::HasSelinux()) GTEST_SKIP() << "kernel lacks SELinux";
    std::string own;
    std::ifstream("/proc/self/attr/current") >> own;
    own = own.c_str();  // what is behind its NUL
    process_ = StrCat(WithoutLevel(own), ":s0:c1,c2");
    ASSERT_TRUE(sys::CheckSelinuxLabel(process_)) << process_;
    ASSERT_TRUE(sys::CheckSelinuxLabel(file_)) << file_;
    pod_.hostname = "web-0";
    pod_.shm_size_bytes = 1 << 20;
  }

  static std::string WithoutLevel(const std::string& label) {
    size_t end = 0;
    for (int part = 0; part < 3; ++part) end = label.find(':', end + 1);
    return label.substr(0, end);
  }
  static std::string LabelOf(const std::string& path) {
    char label[512] = {};
    const ssize_t size = ::lgetxattr(path.c_str(), "security.selinux", label, sizeof label - 1);
    return size < 0 ? StrCat("none: ", errno) : label;
  }

  model::LaunchPlan InPod(const SandboxFds& pod, std::vector<std::string> argv) {
    model::LaunchPlan plan = BasePlan(std::move(argv));
    plan.process.selinux = process_;
    plan.selinux = file_;
    plan.namespaces.network = AddFd(Duplicate(pod.network));
    plan.namespaces.ipc = AddFd(Duplicate(pod.ipc));
    plan.namespaces.uts = AddFd(Duplicate(pod.uts));
    if (pod.user) {
      plan.namespaces.user = AddFd(Duplicate(pod.user));
      plan.root.owner = kBase;
      plan.host_devices = AddTree("/dev");
    }
    model::MountPlan shm;
    shm.kind = model::MountPlan::Kind::kShared;
    shm.source = AddFd(Duplicate(pod.shm));
    shm.destination = "/dev/shm";
    plan.mounts.push_back(shm);
    return plan;
  }

  std::string process_;
  const std::string file_ = "system_u:object_r:tmp_t:s0:c1,c2";
  model::SandboxPlan pod_;
};

// The ladder of overlay mounts, too: each takes the label another way.
TEST_F(SelinuxTest, AContainerAndItsFilesHaveTheirLabels) {
  const SandboxFds pod = MakeSandbox(pod_);
  const sys::HostFacts found = context_.facts;
  std::filesystem::create_directory(Path("image/made"));
  for (const bool newest : {true, false}) {
    context_.facts.overlay_lower_fd = newest && found.overlay_lower_fd;
    context_.facts.overlay_lower_add = newest && found.overlay_lower_add;
    model::LaunchPlan plan = InPod(pod, {"probe", "sleep"});
    for (int i = 0; !newest && i < 120; ++i) {  // more than one option holds
      std::filesystem::create_directories(Path(StrCat("layers/", i)));
      plan.root.layers.push_back(Path(StrCat("layers/", i)));
    }
    plan.root.scratch = Path(newest ? "scratch" : "volume");
    Running running = Start(plan);
    ASSERT_EQ(running.outcome.state, State::kRunning)
        << running.outcome.step << (running.outcome.error ? running.outcome.error->message() : "");
    const std::string proc = StrCat("/proc/", running.launch->pid());
    std::string label;
    ASSERT_TRUE(test_support::Eventually([&] {
      std::ifstream(proc + "/attr/current") >> label;
      return label.c_str() == process_;
    })) << label;
    for (const char* path :
         {"/", "/bin/probe", "/made", "/dev", "/dev/null", "/dev/pts", "/dev/shm", "/dev/mqueue"}) {
      EXPECT_EQ(LabelOf(StrCat(proc, "/root", path)), file_) << path;
    }
    EXPECT_NE(LabelOf(proc + "/root/proc"), file_);
    Stop(running);
  }
}

TEST_F(SelinuxTest, WhateverElseConfinesIt) {
  for (const bool users : {false, true}) {
    if (users) pod_.uid_map = pod_.gid_map = {{0, kBase, 65536}};
    const SandboxFds pod = MakeSandbox(pod_);
    const auto copy = sys::CloneTree(AT_FDCWD, directory_, false);
    ASSERT_TRUE(copy) << copy.error().message();
    if (users && !sys::SetIdMap(copy->get(), pod.user.get(), false)) {
      GTEST_SKIP() << "kernel lacks id maps for the file system of " << directory_;
    }
    for (const bool no_new_privs : {false, true}) {
      model::LaunchPlan plan = InPod(pod, {"probe", "cat", "/proc/self/attr/current"});
      plan.root.scratch = Path(StrCat("scratch/", users, no_new_privs));
      std::filesystem::create_directory(plan.root.scratch);
      plan.process.no_new_privs = no_new_privs;
      plan.process.uid = no_new_privs ? 1000 : 0;
      const RunResult run = Run(plan);
      EXPECT_EQ(run.outcome.state, State::kRunning) << Why(run);
      EXPECT_EQ(std::string(run.output.c_str()), process_) << users << no_new_privs;
    }
  }
}

TEST_F(SelinuxTest, AnExecAndTheInitOfSharedProcessesHaveIt) {
  pod_.init_binary = AddFd(UniqueFd(::open(INIT_BINARY, O_RDONLY | O_CLOEXEC)));
  pod_.init_selinux = process_;
  Running init = Start(pod_);
  ASSERT_EQ(init.outcome.state, State::kRunning)
      << init.outcome.step << (init.outcome.error ? init.outcome.error->message() : "");
  model::LaunchPlan plan = InPod(init.outcome.sandbox, {"probe", "sleep"});
  JoinProcesses(init.outcome.sandbox, plan);
  Running container = Start(plan);
  ASSERT_EQ(container.outcome.state, State::kRunning)
      << container.outcome.step
      << (container.outcome.error ? container.outcome.error->message() : "");
  model::ExecPlan exec;
  exec.process =
      BasePlan({"probe", "cat", "/proc/self/attr/current", "/proc/1/attr/current"}).process;
  exec.process.selinux = process_;
  exec.target = AddFd(UniqueFd(container.launch->DuplicatePidFd().Release()));
  const RunResult run = Run(exec);
  EXPECT_EQ(run.outcome.state, State::kRunning) << Why(run);
  const std::string one(process_.c_str(), process_.size() + 1);
  EXPECT_EQ(run.output, one + one);
  Stop(container);
  Stop(init);
}

TEST_F(SelinuxTest, WhatThePolicyDoesNotKnowStartsNothing) {
  const std::string unknown = "system_u:object_r:nosuch_t:s0";
  EXPECT_EQ(sys::CheckSelinuxLabel(unknown).error().message(),
            StrCat("SELinux label \"", unknown,
                   "\": the policy of the node's kernel knows no such label"));
  model::LaunchPlan plan = BasePlan({"probe", "facts"});
  plan.process.selinux = unknown;
  const RunResult process = Run(plan);
  EXPECT_NE(process.outcome.state, State::kRunning);
  EXPECT_EQ(process.outcome.step, "SELinux");
  ASSERT_TRUE(process.outcome.error);
  EXPECT_EQ(process.outcome.error->sys_errno(), EINVAL);
  plan.process.selinux = "";
  plan.selinux = unknown;
  const RunResult mounts = Run(plan);
  EXPECT_NE(mounts.outcome.state, State::kRunning);
  EXPECT_EQ(mounts.outcome.step, "overlay root") << Why(mounts);
}

TEST_F(SelinuxTest, AThreadsNewFilesHaveTheLabelThatItAsksFor) {
  {
    const auto label = sys::FileCreationLabel::Set(file_);
    ASSERT_TRUE(label) << label.error().message();
    WriteFile("mine", "x");
    std::filesystem::create_symlink("/", Path("link"));
  }
  WriteFile("later", "x");
  EXPECT_EQ(LabelOf(Path("mine")), file_);
  EXPECT_EQ(LabelOf(Path("link")), file_);
  EXPECT_NE(LabelOf(Path("later")), file_);
  ASSERT_TRUE(RelabelVolume(
      [&] {
        model::MountSpec mount;
        mount.source = Path("image");
        return mount;
      }(),
      file_));
  EXPECT_EQ(LabelOf(Path("image/bin/probe")), file_);
}

}  // namespace
}  // namespace holdfast::runtime
