// SPDX-License-Identifier: Apache-2.0
// A logger that is busy for long holds up no program, and whoever dies meanwhile takes no line along.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "holdfast/base/strings.h"
#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

namespace fs = std::filesystem;
using test_support::Eventually;
using test_support::ReadText;
using test_support::RuntimeNode;

class BusyLoggerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    node_ = std::make_unique<RuntimeNode>();
    auto runtime = node_->Open();
    ASSERT_TRUE(runtime->EnsureSandbox(node_->Sandbox("pod")));
    // Says in a file that it runs, and in its log.
    spec_ = node_->Container(
        "pod", "a",
        {"/bin/sh", "-c", "echo hello; echo oops >&2; echo > /volume/begun; exec sleep 1000"});
    volume_ = node_->AddVolume(spec_);
  }

  bool HasBegun() const { return fs::exists(volume_ + "/begun"); }

  void ExpectBothLines() const {
    EXPECT_TRUE(Eventually([&] {
      const std::string log = ReadText(node_->LogPath(spec_));
      return log.find(" stdout F hello\n") != std::string::npos &&
             log.find(" stderr F oops\n") != std::string::npos;
    })) << ReadText(node_->LogPath(spec_));
  }

  std::unique_ptr<RuntimeNode> node_;
  model::ContainerSpec spec_;
  std::string volume_;
};

TEST_F(BusyLoggerTest, TheProgramRunsBeforeTheLoggerHasAnswered) {
  const auto runtime = node_->Open();
  const pid_t logger = node_->Logger();
  ASSERT_EQ(::kill(logger, SIGSTOP), 0);
  auto starting = std::async(std::launch::async, [&] { return runtime->Start(spec_); });
  EXPECT_TRUE(Eventually([&] { return HasBegun(); }));
  EXPECT_EQ(starting.wait_for(std::chrono::seconds(0)), std::future_status::timeout)
      << "nobody reads its log yet";
  EXPECT_EQ(::kill(logger, SIGCONT), 0);
  const auto started = starting.get();
  ASSERT_TRUE(started) << started.error().error.message();
  ExpectBothLines();
  EXPECT_TRUE(runtime->RemoveSandbox(PodUid("pod")));
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
}

// … nor does one that gives no answer at all, and dies, end it.
TEST_F(BusyLoggerTest, AProgramThatItDoesNotAnswerForGoesOn) {
  const auto runtime = node_->Open();
  const pid_t logger = node_->Logger();
  ASSERT_EQ(::kill(logger, SIGSTOP), 0);
  const auto started = runtime->Start(spec_);
  ASSERT_TRUE(started) << started.error().error.message();
  EXPECT_TRUE(HasBegun());
  ::kill(logger, SIGKILL);
  ASSERT_TRUE(runtime->ListSandboxes());
  ExpectBothLines();
  const auto all = runtime->ListContainers();
  ASSERT_EQ(all->size(), 1u);
  EXPECT_FALSE(all->front().exit);
  EXPECT_EQ(all->front().pid, started->pid);
  EXPECT_TRUE(runtime->RemoveSandbox(PodUid("pod")));
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
}

TEST_F(BusyLoggerTest, ALogThatCannotBeOpenedFailsTheStart) {
  const auto runtime = node_->Open();
  fs::create_directories(spec_.log.path);  // a directory in the file's place
  const auto started = runtime->Start(spec_);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().phase, StartFailure::Phase::kCreate);
  EXPECT_TRUE(started.error().error.message().starts_with("log: "))
      << started.error().error.message();
  EXPECT_TRUE(runtime->ListContainers()->empty());
  EXPECT_TRUE(runtime->RemoveSandbox(PodUid("pod")));
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
}

// The agent dies while the logger has its request before it, and then the logger, too.
TEST_F(BusyLoggerTest, ALogThatNobodyHasHeardOfIsRegisteredByTheNextAgent) {
  int ready[2];
  int go[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(go), 0);
  const pid_t agent = ::fork();
  if (agent == 0) {
    const auto runtime = node_->Open();
    char byte = 'r';
    (void)!::write(ready[1], &byte, 1);
    (void)!::read(go[0], &byte, 1);
    (void)runtime->Start(spec_);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const pid_t logger = node_->Logger();
  ASSERT_EQ(::kill(logger, SIGSTOP), 0);
  ASSERT_EQ(::write(go[1], &byte, 1), 1);
  EXPECT_TRUE(Eventually([&] { return HasBegun(); }));
  ::kill(agent, SIGKILL);
  ::waitpid(agent, nullptr, 0);
  ::kill(logger, SIGKILL);
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) ::close(fd);

  const auto next = node_->Open();
  ExpectBothLines();
  const auto all = next->ListContainers();
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1u);
  EXPECT_FALSE(all->front().exit);
  EXPECT_TRUE(next->RemoveSandbox(PodUid("pod")));
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
}

}  // namespace
}  // namespace holdfast::runtime
