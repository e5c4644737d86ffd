// SPDX-License-Identifier: Apache-2.0
// What is left of a keeper that dies at a bad moment: its successor finds what nobody has any more, and who waits for it
// begins another.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "holdfast/base/strings.h"
#include "runtime/keeper/common/keys.h"
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

class KeeperLossTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    node_ = std::make_unique<RuntimeNode>();
  }

  // Writes a line whenever there is one in the volume's pipe.
  model::ContainerSpec StartWriter(ContainerRuntime& runtime) {
    EXPECT_TRUE(runtime.EnsureSandbox(node_->Sandbox("pod")));
    model::ContainerSpec spec =
        node_->Container("pod", "a", {"/bin/sh", "-c", "while :; do cat /volume/lines; done"});
    lines_ = node_->AddVolume(spec) + "/lines";
    EXPECT_EQ(::mkfifo(lines_.c_str(), 0600), 0);
    EXPECT_TRUE(runtime.Start(spec));
    Say("first");
    ExpectLine(spec, "first");
    return spec;
  }
  void Say(const std::string& line) const { std::ofstream(lines_) << line << "\n"; }
  void ExpectLine(const model::ContainerSpec& spec, const std::string& line) const {
    EXPECT_TRUE(Eventually([&] {
      return ReadText(node_->LogPath(spec)).find(StrCat(" stdout F ", line, "\n")) !=
             std::string::npos;
    })) << line
        << " is not in\n"
        << ReadText(node_->LogPath(spec));
  }
  // As by a holder that died after it had been given them.
  void TakePipesFromTheHolder(const model::ContainerSpec& spec) const {
    for (const auto part : {keeper::LogPart::kStdout, keeper::LogPart::kStderr}) {
      EXPECT_TRUE(node_->Keeper().DropFds(keeper::MakeLogKey(spec.id.value, part)));
    }
  }

  std::unique_ptr<RuntimeNode> node_;
  std::string lines_;
};

TEST_F(KeeperLossTest, PipesThatOnlyTheLoggerHadAreFoundInTheContainer) {
  const auto runtime = node_->Open();
  const model::ContainerSpec spec = StartWriter(*runtime);
  TakePipesFromTheHolder(spec);
  ::kill(node_->Logger(), SIGKILL);
  Say("second");
  ExpectLine(spec, "second");
  EXPECT_TRUE(runtime->RemoveSandbox(PodUid("pod")));
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
}

TEST_F(KeeperLossTest, PipesThatNobodyHadAreFoundForTheNextAgent) {
  auto runtime = node_->Open();
  const model::ContainerSpec spec = StartWriter(*runtime);
  runtime.reset();
  // As if the agent had died before it registered it.
  ASSERT_TRUE(node_->Keeper().UnregisterLog(spec.id));
  Say("second");
  runtime = node_->Open();
  ExpectLine(spec, "second");
  EXPECT_TRUE(runtime->RemoveSandbox(PodUid("pod")));
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
}

// When the old launcher is retired already, and the new one is not there yet.
TEST_F(KeeperLossTest, AHolderThatDiesBetweenTwoLaunchersLosesNothing) {
  const std::string point = "holder.collected";
  const KeeperPauses pauses(*node_);
  auto runtime = node_->Open();
  ASSERT_TRUE(runtime->EnsureSandbox(node_->Sandbox("pod")));
  const auto inode = [&]() -> ino_t {
    const auto netns = runtime->NetworkNamespace(PodUid("pod"));
    struct stat st{};
    return netns && ::fstat(netns->get(), &st) == 0 ? st.st_ino : 0;
  };
  const ino_t before = inode();
  pauses.Arm(point);
  ::kill(node_->KeeperProcesses().front(), SIGKILL);
  pauses.KillAt(point);
  ASSERT_TRUE(Eventually([&] { return node_->Keeper().Ping().has_value(); }));
  runtime.reset();
  runtime = node_->Open();  // who has no copy
  EXPECT_TRUE(runtime->ListSandboxes()->front().ready);
  EXPECT_EQ(inode(), before);
  EXPECT_TRUE(runtime->RemoveSandbox(PodUid("pod")));
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
  // Those that are retired end.
  EXPECT_TRUE(Eventually([&] {
    return std::ranges::none_of(
        std::filesystem::directory_iterator(node_->dir() + "/run"),
        [](const auto& entry) { return entry.path().filename().string().starts_with("retired."); });
  }));
}

// While the agent waits for its launcher, and the next one as well.
TEST_F(KeeperLossTest, AHolderThatDiesWhileAnAgentStartsIsStartedAgain) {
  const std::string point = "launcher.before-listen";
  const KeeperPauses pauses(*node_);
  pauses.Arm(point);
  auto starting =
      std::async(std::launch::async, [this] { return MakeContainerRuntime(node_->Options()); });
  for (const bool last : {false, true}) {
    EXPECT_TRUE(Eventually([&] { return pauses.StoppedAt(point).has_value(); }));
    // Until the agent, which looks every 50 ms, has found the holder and waits for the launcher.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    node_->KillKeeper();
    if (!last) pauses.Arm(point);
    pauses.KillAt(point);
  }
  const auto runtime = starting.get();
  EXPECT_TRUE(runtime) << runtime.error().message();
}

}  // namespace
}  // namespace holdfast::runtime
