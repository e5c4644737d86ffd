// SPDX-License-Identifier: Apache-2.0
// A launcher killed in the middle of a launch takes nothing along: the container starts all the
// same, once, with its terminal and its log, under the id it was asked for; a program in it runs once.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

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

struct Case {
  const char* point;
  bool tty;
  bool shared = false;  // shareProcessNamespace: the process is born at the end of the recipe
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.point << (c.tty ? ", terminal" : ", pipes") << (c.shared ? ", shared processes" : "");
}

class LauncherKill : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    node_ = std::make_unique<RuntimeNode>();
    pauses_.emplace(*node_);
    runtime_ = node_->Open();
  }

  // What `call` gives when the launcher is killed at the point meanwhile.
  template <class Call>
  auto WithAKill(const std::string& point, Call call) {
    pauses_->Arm(point);
    auto result = std::async(std::launch::async, std::move(call));
    pauses_->KillAt(point);
    return result.get();
  }

  void StartWithAKill(const model::ContainerSpec& spec, const std::string& point) {
    const auto started = WithAKill(point, [&] { return runtime_->Start(spec); });
    ASSERT_TRUE(started) << started.error().error.message();
    EXPECT_EQ(started->id, spec.id);
    EXPECT_EQ(::kill(started->pid, 0), 0);
  }

  std::unique_ptr<RuntimeNode> node_;
  std::unique_ptr<ContainerRuntime> runtime_;
  std::optional<KeeperPauses> pauses_;
};

class LauncherKillTest : public LauncherKill, public ::testing::WithParamInterface<Case> {};

TEST_P(LauncherKillTest, TheContainerStartsAllTheSame) {
  model::SandboxSpec sandbox = node_->Sandbox("pod");
  sandbox.share_process_namespace = GetParam().shared;
  ASSERT_TRUE(runtime_->EnsureSandbox(sandbox));
  model::ContainerSpec spec =
      node_->Container("pod", "a", {"/bin/sh", "-c", "echo begun; exec sleep 1000"});
  spec.tty = GetParam().tty;
  if (GetParam().shared) spec.namespaces.pid = model::NamespaceMode::kPod;
  // A mount of the plan serves one launch only.
  (void)node_->AddVolume(spec);
  ASSERT_NO_FATAL_FAILURE(StartWithAKill(spec, GetParam().point));
  const std::string end = spec.tty ? " F begun\r\n" : " F begun\n";
  EXPECT_TRUE(Eventually([&] { return ReadText(node_->LogPath(spec)).ends_with(end); }))
      << ReadText(node_->LogPath(spec));
  const auto all = runtime_->ListContainers();
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1u);
  EXPECT_FALSE(all->front().exit);
  EXPECT_TRUE(runtime_->RemoveSandbox(PodUid("pod")));
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(
    Points, LauncherKillTest,
    ::testing::Values(Case{"launcher.after-start-record", true}, Case{"launcher.after-go", true},
                      Case{"launcher.terminal-given", true}, Case{"launcher.before-answer", true},
                      Case{"launcher.after-start-record", false}, Case{"launcher.after-go", false},
                      Case{"launcher.before-answer", false}, Case{"launcher.born", false, true},
                      Case{"launcher.born", true, true},
                      Case{"launcher.after-start-record", false, true},
                      Case{"launcher.terminal-given", true, true},
                      Case{"launcher.before-answer", false, true}));

// Nobody can open a pidfd of it any more when the launch is tried again.
TEST_F(LauncherKill, AProgramThatHasEndedMeanwhileIsNoFailure) {
  ASSERT_TRUE(runtime_->EnsureSandbox(node_->Sandbox("pod")));
  const auto spec = node_->Container("pod", "a", {"/bin/sleep", "1000"});
  ASSERT_TRUE(runtime_->Start(spec));
  const auto session = WithAKill("launcher.before-answer", [&] {
    return runtime_->Exec(spec.id, {.argv = {"/bin/sh", "-c", "echo said; exit 3"}});
  });
  ASSERT_TRUE(session) << session.error().message();
  pollfd ended{(*session)->ended_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&ended, 1, 20'000), 1);
  EXPECT_TRUE((*session)->Signal(SIGTERM));
  const auto report = (*session)->Wait();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->exit_code, 3);
  char said[16] = {};
  EXPECT_EQ(::read((*session)->stdout_fd(), said, sizeof said), 5);
  EXPECT_STREQ(said, "said\n");
  EXPECT_TRUE(runtime_->RemoveSandbox(PodUid("pod")));
}

}  // namespace
}  // namespace holdfast::runtime
