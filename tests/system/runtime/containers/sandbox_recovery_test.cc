// SPDX-License-Identifier: Apache-2.0
// Holder and launcher die together, and nobody kept the namespaces of the pods: those whose containers run have them still,
// and what starts later in such a pod shares them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "holdfast/base/strings.h"
#include "tests/support/containers/runtime_test.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

namespace fs = std::filesystem;
using test_support::Eventually;
using test_support::ReadText;

class SandboxRecoveryTest : public test_support::RuntimeTest {
 protected:
  pid_t Start(const std::string& name, const std::string& script,
              const std::function<void(model::ContainerSpec&)>& change = {}) {
    model::ContainerSpec spec = node_->Container("pod", name, {"/bin/sh", "-c", script});
    if (change) change(spec);
    const auto started = runtime_->Start(spec);
    EXPECT_TRUE(started) << started.error().error.message();
    logs_[name] = node_->LogPath(spec);
    return started ? started->pid : -1;
  }
  static void ShareProcesses(model::ContainerSpec& spec) {
    spec.namespaces.pid = model::NamespaceMode::kPod;
  }
  void ExpectLogEnds(const std::string& name, const std::string& end) {
    EXPECT_TRUE(Eventually([&] { return ReadText(logs_[name]).ends_with(end); }))
        << ReadText(logs_[name]);
  }

  // All of the keeper's processes, and the agent too or not.
  void LoseTheKeeper(bool agent) {
    if (agent) runtime_.reset();
    node_->KillKeeper();
    if (agent) runtime_ = node_->Open();
    ASSERT_TRUE(Eventually([&] { return node_->Keeper().Ping().has_value(); }));
    ASSERT_TRUE(Eventually([&] {
      const auto seen = runtime_->ListSandboxes();
      return seen && seen->size() == 1 && !seen->front().ready;
    }));
  }
  static std::string Namespace(pid_t pid, const char* name) {
    return fs::read_symlink(StrCat("/proc/", pid, "/ns/", name));
  }
  bool NetworkIsThatOf(pid_t pid) {
    const auto netns = runtime_->NetworkNamespace(PodUid("pod"));
    if (!netns) return false;
    struct stat theirs{}, ours{};
    return ::fstat(netns->get(), &ours) == 0 &&
           ::stat(StrCat("/proc/", pid, "/ns/net").c_str(), &theirs) == 0 &&
           ours.st_ino == theirs.st_ino;
  }
  void ExpectRemovedWithoutATrace() {
    EXPECT_TRUE(runtime_->RemoveSandbox(PodUid("pod")));
    EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
  }

  std::map<std::string, std::string> logs_;
};

class WhoDies : public SandboxRecoveryTest, public ::testing::WithParamInterface<bool> {};

TEST_P(WhoDies, APodThatRunsKeepsItsNamespaces) {
  const model::SandboxSpec sandbox = node_->Sandbox("pod");
  ASSERT_TRUE(runtime_->EnsureSandbox(sandbox));
  const pid_t first = Start("a", "echo mine > /dev/shm/note; echo said; exec sleep 1000");
  ExpectLogEnds("a", " F said\n");
  ASSERT_NO_FATAL_FAILURE(LoseTheKeeper(GetParam()));
  // What an agent left that died while it gave them back, of a set that had one more.
  const UniqueFd netns(::open(StrCat("/proc/", first, "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_FALSE(node_->Keeper().PutSandbox(PodUid("pod"), {{"net", netns.get()}, {"uts", -1}}));
  const auto ensured = runtime_->EnsureSandbox(sandbox);
  ASSERT_TRUE(ensured) << ensured.error().message();
  EXPECT_TRUE(runtime_->ListSandboxes()->front().ready);
  EXPECT_TRUE(NetworkIsThatOf(first));
  const pid_t second = Start("b", "cat /dev/shm/note; exec sleep 1000");
  ExpectLogEnds("b", " F mine\n");
  for (const char* name : {"net", "ipc", "uts"}) {
    EXPECT_EQ(Namespace(first, name), Namespace(second, name)) << name;
  }
  // They are kept again, by whoever keeps them for the next agent.
  runtime_.reset();
  runtime_ = node_->Open();
  EXPECT_TRUE(runtime_->ListSandboxes()->front().ready);
  EXPECT_TRUE(NetworkIsThatOf(first));
  ExpectRemovedWithoutATrace();
}

INSTANTIATE_TEST_SUITE_P(Of, WhoDies, ::testing::Bool(), [](const auto& which) {
  return which.param ? "AgentAndKeeper" : "KeeperAlone";
});

TEST_F(SandboxRecoveryTest, SharedProcessesAreSharedStill) {
  model::SandboxSpec sandbox = node_->Sandbox("pod");
  sandbox.share_process_namespace = true;
  ASSERT_TRUE(runtime_->EnsureSandbox(sandbox));
  const pid_t first = Start("a", "echo said; exec sleep 4321", ShareProcesses);
  ExpectLogEnds("a", " F said\n");
  ASSERT_NO_FATAL_FAILURE(LoseTheKeeper(true));
  const auto ensured = runtime_->EnsureSandbox(sandbox);
  ASSERT_TRUE(ensured) << ensured.error().message();
  const pid_t second =
      Start("b", "ps | grep -q 'sleep 432[1]' && echo seen; exec sleep 1000", ShareProcesses);
  ExpectLogEnds("b", " F seen\n");
  EXPECT_EQ(Namespace(first, "pid"), Namespace(second, "pid"));
  ExpectRemovedWithoutATrace();
}

// One that has gone into a network of its own, of which it is the master, does not have the pod's interface put there.
TEST_F(SandboxRecoveryTest, NamespacesThatAContainerMadeAreNotThePods) {
  const model::SandboxSpec sandbox = node_->Sandbox("pod");
  ASSERT_TRUE(runtime_->EnsureSandbox(sandbox));
  const pid_t hostile = Start("a", "exec unshare -U -n sleep 1000", [](model::ContainerSpec& spec) {
    spec.security.seccomp = model::SecuritySpec::Seccomp::kUnconfined;
  });
  ASSERT_TRUE(Eventually([&] { return !NetworkIsThatOf(hostile); }));
  ASSERT_NO_FATAL_FAILURE(LoseTheKeeper(true));
  ASSERT_TRUE(runtime_->EnsureSandbox(sandbox));
  EXPECT_FALSE(NetworkIsThatOf(hostile));
  EXPECT_FALSE(runtime_->ListContainers()->front().exit) << "so it was nobody's";
  ExpectRemovedWithoutATrace();
}

// Nothing runs that could be cut off.
TEST_F(SandboxRecoveryTest, APodOfWhichNothingRunsGetsNewOnes) {
  const model::SandboxSpec sandbox = node_->Sandbox("pod");
  ASSERT_TRUE(runtime_->EnsureSandbox(sandbox));
  ASSERT_NO_FATAL_FAILURE(LoseTheKeeper(true));
  ASSERT_TRUE(runtime_->EnsureSandbox(sandbox));
  const pid_t first = Start("a", "exec sleep 1000");
  EXPECT_TRUE(NetworkIsThatOf(first));
  ExpectRemovedWithoutATrace();
}

}  // namespace
}  // namespace holdfast::runtime
