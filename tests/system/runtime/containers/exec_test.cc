// SPDX-License-Identifier: Apache-2.0
// Exec sessions in a running container, with a real keeper.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "holdfast/base/strings.h"
#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

using test_support::RuntimeNode;

// Everything up to end-of-file, or what came within ten seconds.
std::string Drain(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, 10000) <= 0) return text + "<time out>";
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) return text;  // a pty's master gives EIO once the other side is closed
    text.append(buffer, static_cast<size_t>(n));
  }
}

class ExecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    node_ = std::make_unique<RuntimeNode>();
    runtime_ = node_->Open();
    ASSERT_TRUE(runtime_->EnsureSandbox(node_->Sandbox("pod")));
    spec_ = node_->Container("pod", "a", {"/bin/sleep", "1000"});
    spec_.env.push_back("FROM=spec");
    const auto started = runtime_->Start(spec_);
    ASSERT_TRUE(started) << started.error().error.message();
  }
  void TearDown() override {
    if (!runtime_) return;
    EXPECT_TRUE(runtime_->RemoveSandbox(PodUid("pod")));
    EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
    runtime_.reset();
    node_.reset();
  }
  std::unique_ptr<ExecSession> Exec(const ExecSpec& spec) {
    auto session = runtime_->Exec(spec_.id, spec);
    EXPECT_TRUE(session) << (session ? "" : session.error().message());
    return session ? std::move(*session) : nullptr;
  }
  bool NoExecRecords() {
    return test_support::Eventually([&] {
      return node_->Keeper().ListStarts()->size() == 1 && node_->Keeper().ListExits()->empty();
    });
  }

  // Of this node, in the hierarchy that they are made in.
  size_t ExecCgroups() {
    namespace fs = std::filesystem;
    const std::string pids = "/sys/fs/cgroup/pids";
    const std::string top = fs::exists(pids) ? pids : "/sys/fs/cgroup";
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(top + node_->cgroup_parent())) {
      if (entry.path().filename().string().starts_with("exec-")) ++count;
    }
    return count;
  }

  // Whether the process of kDaemonize still runs, looking every millisecond `tries` times. Dead it
  // may stay a zombie: the container's first process is no init.
  std::string Daemon(const std::string& tries) {
    const std::string script = "i=0; while [ $i -lt " + tries +
                               " ]; do case $(cat /proc/$(cat /daemon)/stat 2>/dev/null) in *') Z "
                               "'*|'') echo gone; exit;; "
                               "esac; usleep 1000; i=$((i+1)); done; echo runs";
    auto look = Exec({{"/bin/sh", "-c", script}, false, false, 24, 80});
    return look ? Drain(look->stdout_fd()) : "";
  }

  std::unique_ptr<RuntimeNode> node_;
  std::unique_ptr<ContainerRuntime> runtime_;
  model::ContainerSpec spec_;
};

TEST_F(ExecTest, GivesOutputAndExitCode) {
  auto session =
      Exec({{"/bin/sh", "-c", "echo $FROM; echo bad >&2; exit 3"}, false, false, 24, 80});
  ASSERT_TRUE(session);
  EXPECT_EQ(session->stdin_fd(), -1);
  EXPECT_EQ(Drain(session->stdout_fd()), "spec\n");
  EXPECT_EQ(Drain(session->stderr_fd()), "bad\n");
  const auto report = session->Wait();
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->exit_code, 3);
  session.reset();
  EXPECT_TRUE(NoExecRecords());
}

TEST_F(ExecTest, PassesStdinOn) {
  auto session = Exec({{"/bin/cat"}, true, false, 24, 80});
  ASSERT_TRUE(session);
  ASSERT_EQ(::write(session->stdin_fd(), "line\n", 5), 5);
  session->CloseStdin();
  EXPECT_EQ(Drain(session->stdout_fd()), "line\n");
  EXPECT_EQ(session->Wait()->exit_code, 0);
}

TEST_F(ExecTest, TerminalHasItsSizeAndCanBeResized) {
  auto session =
      Exec({{"/bin/sh", "-c", "stty size; read x; stty size; exit 4"}, true, true, 31, 77});
  ASSERT_TRUE(session);
  EXPECT_EQ(session->stderr_fd(), -1);
  ASSERT_TRUE(session->Resize(40, 120));
  ASSERT_EQ(::write(session->stdin_fd(), "\n", 1), 1);
  const std::string output = Drain(session->stdout_fd());
  EXPECT_NE(output.find("40 120"), std::string::npos) << output;
  EXPECT_EQ(session->Wait()->exit_code, 4);
  session.reset();
  EXPECT_TRUE(NoExecRecords());
}

TEST_F(ExecTest, DestructionEndsTheCommand) {
  auto session = Exec({{"/bin/sleep", "1000"}, false, false, 24, 80});
  ASSERT_TRUE(session);
  const int pidfd = ::fcntl(session->ended_fd(), F_DUPFD_CLOEXEC, 0);
  session.reset();
  pollfd ended{pidfd, POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 10000), 1);
  ::close(pidfd);
  EXPECT_TRUE(NoExecRecords());
}

// It has left its parent, its session and its process group.
constexpr char kDaemonize[] =
    "(setsid sh -c 'sleep 1000 & echo $! > /daemon; wait' >/dev/null 2>&1 &); "
    "until [ -s /daemon ]; do usleep 1000; done; ";

TEST_F(ExecTest, DestructionEndsWhatTheCommandDaemonized) {
  auto session = Exec(
      {{"/bin/sh", "-c", std::string(kDaemonize) + "echo up; sleep 1000"}, false, false, 24, 80});
  ASSERT_TRUE(session);
  char byte = 0;
  ASSERT_EQ(::read(session->stdout_fd(), &byte, 1), 1);
  session.reset();
  EXPECT_TRUE(NoExecRecords());
  EXPECT_EQ(Daemon("10000"), "gone\n");
}

TEST_F(ExecTest, WhatACommandLeavesRunningAtItsEndGoesOn) {
  auto session =
      Exec({{"/bin/sh", "-c", std::string(kDaemonize) + "exit 6"}, false, false, 24, 80});
  ASSERT_TRUE(session);
  EXPECT_EQ(session->Wait()->exit_code, 6);
  session.reset();
  EXPECT_TRUE(NoExecRecords());
  EXPECT_EQ(Daemon("100"), "runs\n");  // and goes with the container: see TearDown()
}

// One that has ended a moment ago may still hold its cgroup.
TEST_F(ExecTest, ManyLeaveNoCgroup) {
  for (int i = 0; i < 100; ++i) {
    auto session = Exec({{"/bin/true"}, false, false, 24, 80});
    ASSERT_TRUE(session);
    EXPECT_EQ(session->Wait()->exit_code, 0);
  }
  EXPECT_TRUE(NoExecRecords());
  EXPECT_EQ(ExecCgroups(), 0u);
}

// v1 pays for each directory, so there is one, and that of pids: the container's own elsewhere.
TEST_F(ExecTest, ItsCgroupStandsInOneHierarchy) {
  auto session = Exec({{"/bin/sh", "-c", "echo $$; exec sleep 1000"}, false, false, 24, 80});
  ASSERT_TRUE(session);
  std::string begun(64, '\0');
  ASSERT_GT(::read(session->stdout_fd(), begun.data(), begun.size()), 0);
  pid_t container = 0, exec = 0;
  const auto starts = node_->Keeper().ListStarts();
  ASSERT_TRUE(starts);
  for (const keeper::StartRecord& start : *starts) {
    (start.kind == keeper::ProcessKind::kExec ? exec : container) = start.pid;
  }
  const std::string own = test_support::ReadText(StrCat("/proc/", exec, "/cgroup"));
  const std::string theirs = test_support::ReadText(StrCat("/proc/", container, "/cgroup"));
  const size_t at = own.find("/exec-");
  ASSERT_NE(at, std::string::npos) << own;
  const size_t line = own.rfind('\n', at) + 1;
  EXPECT_NE(own.substr(line, at - line)
                .find(own.find(":memory:") == std::string::npos ? "0::" : ":pids:"),
            std::string::npos)
      << own;
  std::string without = own;
  without.erase(at, own.find('\n', at) - at);
  EXPECT_EQ(without, theirs);
}

TEST_F(ExecTest, MissingProgramIsAnErrorOfTheCall) {
  const auto session = runtime_->Exec(spec_.id, {{"/no/such"}, false, false, 24, 80});
  ASSERT_FALSE(session);
  EXPECT_NE(session.error().message().find("no such file"), std::string::npos)
      << session.error().message();
  EXPECT_EQ(
      runtime_->Exec(RuntimeNode::Id("f"), {{"/bin/true"}, false, false, 24, 80}).error().code(),
      Code::kNotFound);
}

TEST_F(ExecTest, NewAgentEndsTheExecsOfTheFormer) {
  auto session = Exec({{"/bin/sleep", "1000"}, false, false, 24, 80});
  ASSERT_TRUE(session);
  const int pidfd = ::fcntl(session->ended_fd(), F_DUPFD_CLOEXEC, 0);
  // A second agent process on the same node stands for the restarted one.
  auto next = node_->Open();
  pollfd ended{pidfd, POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 10000), 1);
  ::close(pidfd);
  EXPECT_TRUE(NoExecRecords());
  session.reset();
}

}  // namespace
}  // namespace holdfast::runtime
