// SPDX-License-Identifier: Apache-2.0
#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using ContainerTest = LaunchTest;
using State = LaunchOutcome::State;

TEST_F(ContainerTest, RunsWithItsOwnNamespacesAndNoInheritedDescriptor) {
  const RunResult run = Run(BasePlan({"probe", "facts"}));
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.exit.code, 0);
  EXPECT_EQ(run.Fact("pid"), "1");
  EXPECT_EQ(run.Fact("fds"), "0 1 2");
  EXPECT_EQ(run.Fact("cwd"), "/");
  EXPECT_EQ(run.Fact("sid"), "own");
  for (const char* name : {"mnt", "pid", "cgroup"}) {
    const std::string own = std::filesystem::read_symlink(std::string("/proc/self/ns/") + name);
    EXPECT_NE(run.Fact(std::string("ns.") + name), own) << name;
  }
  const std::string host_net = std::filesystem::read_symlink("/proc/self/ns/net");
  EXPECT_EQ(run.Fact("ns.net"), host_net);
}

}  // namespace
}  // namespace holdfast::runtime
