// SPDX-License-Identifier: Apache-2.0
#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using State = LaunchOutcome::State;

class ExecTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    if (IsSkipped()) return;
    container_ = Start(BasePlan({"probe", "sleep"}));
    ASSERT_EQ(container_.outcome.state, State::kRunning)
        << (container_.outcome.error ? container_.outcome.error->message() : "");
  }
  void TearDown() override {
    Stop(container_);
    LaunchTest::TearDown();
  }

  model::ExecPlan Exec(std::vector<std::string> argv) {
    model::ExecPlan plan;
    plan.target = AddFd(UniqueFd(container_.launch->DuplicatePidFd().Release()));
    plan.process = BasePlan(std::move(argv)).process;
    return plan;
  }

  Running container_;
};

TEST_F(ExecTest, JoinsEveryNamespaceOfTheContainer) {
  const RunResult run = Run(Exec({"probe", "facts"}));
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.exit.code, 0);
  EXPECT_NE(run.Fact("pid"), "1");
  EXPECT_EQ(run.Fact("fds"), "0 1 2");
  EXPECT_EQ(run.Fact("CapEff"), "00000000a80425fb");
  const std::string of_container = "/proc/" + std::to_string(container_.launch->pid()) + "/ns/";
  for (const char* name : {"cgroup", "ipc", "mnt", "net", "pid", "uts", "time"}) {
    const std::string expected = std::filesystem::read_symlink(of_container + name);
    EXPECT_EQ(run.Fact(std::string("ns.") + name), expected) << name;
  }
}

TEST_F(ExecTest, TheLauncherStaysInItsOwnPidNamespace) {
  const RunResult run = Run(Exec({"probe", "facts"}));
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  const std::string own = std::filesystem::read_symlink("/proc/self/ns/pid");
  const std::string children = std::filesystem::read_symlink("/proc/self/ns/pid_for_children");
  EXPECT_EQ(own, children);
}

TEST_F(ExecTest, CommandAndDirectoryErrorsAreTheContainers) {
  const RunResult missing = Run(Exec({"nothing-here"}));
  EXPECT_EQ(missing.outcome.state, State::kExecFailed);
  EXPECT_EQ(missing.outcome.error->message(),
            "exec: \"nothing-here\": executable file not found in $PATH");
  model::ExecPlan plan = Exec({"probe"});
  plan.process.cwd = "/no/such/directory";
  const RunResult cwd = Run(plan);
  EXPECT_EQ(cwd.outcome.state, State::kFailed);
  EXPECT_EQ(cwd.outcome.step, "working directory");
}

TEST_F(ExecTest, ATerminalIsAPtyOfTheContainerWithTheSizeAsked) {
  model::ExecPlan plan = Exec({"probe", "tty"});
  plan.process.stdio.tty = true;
  plan.process.stdio.rows = 50;
  plan.process.stdio.columns = 132;
  Running exec = Start(plan);
  ASSERT_EQ(exec.outcome.state, State::kRunning)
      << (exec.outcome.error ? exec.outcome.error->message() : "");
  ASSERT_TRUE(exec.outcome.pty_master);
  std::string output;
  char buffer[1024];
  for (ssize_t n = 0; (n = ::read(exec.outcome.pty_master.get(), buffer, sizeof buffer)) > 0;) {
    output.append(buffer, static_cast<size_t>(n));
  }
  EXPECT_EQ(Reap(*exec.launch).code, 0);
  EXPECT_TRUE(output.starts_with("tty 1 50x132 /dev/pts/")) << output;
}

TEST_F(ExecTest, IntoAContainerThatHasEndedIsRefusedAsSuch) {
  model::ExecPlan plan = Exec({"probe"});
  ASSERT_TRUE(sys::SendSignal(container_.launch->pidfd(), SIGKILL).has_value());
  Reap(*container_.launch);
  container_.launch.reset();
  const RunResult run = Run(plan);
  ASSERT_EQ(run.outcome.state, State::kFailed);
  EXPECT_EQ(run.outcome.error->code(), Code::kNotFound) << Why(run);
  EXPECT_NE(run.outcome.error->message().find("not running"), std::string::npos) << Why(run);
}

TEST_F(LaunchTest, AContainersTerminalIsItsConsole) {
  model::LaunchPlan plan = BasePlan({"probe", "tty"});
  plan.process.stdio.tty = true;
  Running container = Start(plan);
  ASSERT_EQ(container.outcome.state, State::kRunning)
      << (container.outcome.error ? container.outcome.error->message() : "");
  ASSERT_TRUE(container.outcome.pty_master);
  char buffer[256] = {};
  const ssize_t n = ::read(container.outcome.pty_master.get(), buffer, sizeof buffer - 1);
  ASSERT_GT(n, 0);
  EXPECT_TRUE(std::string(buffer).starts_with("tty 1 24x80 /dev/pts/0")) << buffer;
  Reap(*container.launch);
}

}  // namespace
}  // namespace holdfast::runtime
