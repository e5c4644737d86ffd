// SPDX-License-Identifier: Apache-2.0
// An agent is killed while a launch that it asked for is on its way, and its successor wants the same container: it
// starts once, whichever of the two asked for it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <optional>

#include "holdfast/base/strings.h"
#include "tests/support/containers/keeper_pauses.h"
#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

using test_support::Eventually;
using test_support::KeeperPauses;
using test_support::ReadText;
using test_support::RuntimeNode;

constexpr char kPoint[] = "launcher.after-start-record";

class FormerLaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    node_ = std::make_unique<RuntimeNode>();
    pauses_.emplace(*node_);
    ASSERT_TRUE(node_->Open()->EnsureSandbox(node_->Sandbox("pod")));
    ASSERT_NO_FATAL_FAILURE(KillAnAgentThatStarts());
  }

  // Its container, "a", has a start record, and its first process is stopped before it begins.
  void KillAnAgentThatStarts() {
    pauses_->Arm(kPoint);
    const std::string program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "containers_driver";
    const pid_t agent = ::fork();
    if (agent == 0) {
      ::execl(program.c_str(), program.c_str(), node_->dir().c_str(),
              node_->cgroup_parent().c_str(), "start", "pod", "a", "/bin/sh", "-c",
              "echo begun; exec sleep 1000", nullptr);
      ::_exit(127);
    }
    std::optional<pid_t> launcher;
    const bool stopped =
        Eventually([&] { return (launcher = pauses_->StoppedAt(kPoint)).has_value(); });
    const auto start = node_->Keeper().FindStart(RuntimeNode::Id("a").value);
    if (start && *start) former_ = (*start)->pid;
    if (former_ > 0) ::kill(former_, SIGSTOP);
    ::kill(agent, SIGKILL);
    ::waitpid(agent, nullptr, 0);
    if (launcher) ::kill(*launcher, SIGCONT);
    ASSERT_TRUE(stopped && former_ > 0);
  }

  // The same container as the former agent's, as one that knows nothing of it asks for it.
  model::ContainerSpec Wanted() const {
    model::ContainerSpec spec =
        node_->Container("pod", "a", {"/bin/sh", "-c", "echo begun; exec sleep 1000"});
    spec.id = RuntimeNode::Id("b");
    return spec;
  }

  void ExpectOne(ContainerRuntime& runtime, const StartedContainer& started) {
    EXPECT_EQ(started.id, RuntimeNode::Id("a"));
    EXPECT_EQ(started.pid, former_);
    const auto all = runtime.ListContainers();
    ASSERT_TRUE(all);
    ASSERT_EQ(all->size(), 1u);
    EXPECT_EQ(all->front().id, started.id);
    EXPECT_FALSE(all->front().exit);
    const std::string log = node_->LogPath(Wanted());
    EXPECT_TRUE(Eventually([&] { return ReadText(log).ends_with(" F begun\n"); })) << ReadText(log);
    EXPECT_TRUE(runtime.RemoveSandbox(PodUid("pod")));
    EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
  }

  std::unique_ptr<RuntimeNode> node_;
  std::optional<KeeperPauses> pauses_;
  pid_t former_ = 0;
};

TEST_F(FormerLaunchTest, OneThatIsOnItsWayIsTakenOver) {
  const auto runtime = node_->Open();
  auto starting = std::async(std::launch::async, [&] { return runtime->Start(Wanted()); });
  ::kill(former_, SIGCONT);
  const auto started = starting.get();
  ASSERT_TRUE(started) << started.error().error.message();
  ExpectOne(*runtime, *started);
}

// By one that has looked before.
TEST_F(FormerLaunchTest, OneThatHasBegunMeanwhileIsTakenOver) {
  const auto runtime = node_->Open();
  ::kill(former_, SIGCONT);
  ASSERT_TRUE(Eventually([&] { return !runtime->ListContainers()->empty(); }));
  const auto started = runtime->Start(Wanted());
  ASSERT_TRUE(started) << started.error().error.message();
  ExpectOne(*runtime, *started);
}

TEST_F(FormerLaunchTest, OneThatCannotBeginIsMadeAnew) {
  const auto runtime = node_->Open();
  auto starting = std::async(std::launch::async, [&] { return runtime->Start(Wanted()); });
  ::kill(former_, SIGKILL);
  const auto started = starting.get();
  ASSERT_TRUE(started) << started.error().error.message();
  former_ = started->pid;
  EXPECT_EQ(started->id, RuntimeNode::Id("b"));
  EXPECT_TRUE(Eventually([&] { return runtime->ListContainers()->size() == 1; }));
  EXPECT_TRUE(runtime->RemoveSandbox(PodUid("pod")));
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
}

}  // namespace
}  // namespace holdfast::runtime
