// SPDX-License-Identifier: Apache-2.0
// What of the agent and of the keeper's memory others can get hold of: environment, core dumps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

using test_support::Eventually;
using test_support::ReadText;
using test_support::RuntimeNode;

constexpr char kSecret[] = "HOLDFAST_TEST_SECRET";

// "A=1\0B=2\0" as a sorted list.
std::vector<std::string> Variables(const std::string& environ) {
  std::vector<std::string> all;
  for (size_t at = 0; at < environ.size();) {
    const size_t end = std::min(environ.find('\0', at), environ.size());
    all.push_back(environ.substr(at, end - at));
    at = end + 1;
  }
  std::ranges::sort(all);
  return all;
}

// What a process of the same user finds that may not override: get_robust_list(2) asks for read
// access and changes nothing. CAP_SYS_PTRACE leaves the effective set only, since the permitted one
// must not be smaller than the target's.
bool IsReadableWithoutPtrace(pid_t pid) {
  const pid_t child = ::fork();
  if (child == 0) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    ::syscall(SYS_capget, &header, data);
    data[0].effective &= ~(1u << CAP_SYS_PTRACE);
    if (::syscall(SYS_capset, &header, data) != 0) ::_exit(2);
    void* head = nullptr;
    size_t size = 0;
    ::_exit(::syscall(SYS_get_robust_list, pid, &head, &size) == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_LT(WEXITSTATUS(status), 2) << "capset";
  return WEXITSTATUS(status) == 0;
}

class KeeperPrivacyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ::setenv(kSecret, "42", 1);
    node_ = std::make_unique<RuntimeNode>();
  }
  void TearDown() override {
    runtime_.reset();
    node_.reset();
    ::unsetenv(kSecret);
  }

  // The log's content, without the CRI prefixes, of a container that runs `argv` to its end.
  std::string Output(const std::string& id, std::vector<std::string> argv) {
    EXPECT_TRUE(runtime_->EnsureSandbox(node_->Sandbox("p1")));
    const model::ContainerSpec spec = node_->Container("p1", id, std::move(argv));
    auto started = runtime_->Start(spec);
    EXPECT_TRUE(started) << started.error().error.message();
    std::string text;
    EXPECT_TRUE(Eventually([&] {
      text = ReadText(node_->LogPath(spec));
      return text.ends_with("end\n");
    }));
    std::string lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      const std::string line = text.substr(at, end - at);
      lines += line.substr(std::min(line.find(" F ") + 3, line.size())) + "\n";
      at = end + 1;
    }
    return lines;
  }

  std::unique_ptr<RuntimeNode> node_;
  std::unique_ptr<ContainerRuntime> runtime_;
};

// PR-07
TEST_F(KeeperPrivacyTest, NothingOfTheAgentsEnvironmentIsInTheKeeperOrAContainer) {
  runtime_ = node_->Open();
  const std::vector<pid_t> pids = node_->KeeperProcesses();
  ASSERT_EQ(pids.size(), 3u) << "holder, launcher, logger";
  for (const pid_t pid : pids) {
    for (const std::string& variable : Variables(ReadText(StrCat("/proc/", pid, "/environ")))) {
      EXPECT_TRUE(variable.starts_with("HOLDFAST_PAUSE_")) << variable;
    }
  }
  const std::string seen = Output("a1", {"/bin/sh", "-c",
                                         "exec 3</proc/self/environ; "
                                         "/bin/busybox tr '\\000' '\\n' <&3; echo end"});
  std::vector<std::string> lines;
  for (size_t at = 0; at < seen.size(); at = seen.find('\n', at) + 1) {
    lines.push_back(seen.substr(at, seen.find('\n', at) - at));
  }
  std::ranges::sort(lines);
  EXPECT_EQ(lines, (std::vector<std::string>{"HOME=/", "PATH=/bin", "end"}));
}

TEST_F(KeeperPrivacyTest, TheKeeperIsNotDumpable) {
  runtime_ = node_->Open();
  const pid_t ordinary = ::fork();
  if (ordinary == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_TRUE(IsReadableWithoutPtrace(ordinary));  // what an ordinary program would be
  ::kill(ordinary, SIGKILL);
  ::waitpid(ordinary, nullptr, 0);
  const std::vector<pid_t> pids = node_->KeeperProcesses();
  ASSERT_EQ(pids.size(), 3u) << "holder, launcher, logger";
  for (const pid_t pid : pids) {
    EXPECT_FALSE(IsReadableWithoutPtrace(pid)) << ReadText(StrCat("/proc/", pid, "/comm"));
  }
}

// The agent lowers its own; what it was given goes on to containers.
TEST_F(KeeperPrivacyTest, ContainersHaveTheCoreLimitThatTheAgentWasStartedWith) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_CORE, &before), 0);
  const rlimit lowered{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_CORE, &lowered), 0);
  RuntimeOptions options = node_->Options();
  options.keeper_core_limit = rlimit{512 * 1024, before.rlim_max};
  auto runtime = MakeContainerRuntime(std::move(options));
  EXPECT_EQ(::setrlimit(RLIMIT_CORE, &before), 0);
  ASSERT_TRUE(runtime) << runtime.error().message();
  runtime_ = std::move(*runtime);
  const std::string seen = Output("a1", {"/bin/sh", "-c", "ulimit -S -c; echo end"});
  EXPECT_EQ(seen, "1024\nend\n");  // of 512 bytes each
}

}  // namespace
}  // namespace holdfast::runtime
