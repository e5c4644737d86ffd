// SPDX-License-Identifier: Apache-2.0
// What a container with CAP_SYS_ADMIN finds when it mounts the cgroup hierarchies once more
// (CVE-2022-0492, RT-10).
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "runtime/cgroup/layout.h"
#include "tests/support/containers/runtime_test.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

using test_support::Eventually;
using test_support::ReadText;

// Every hierarchy of /proc/self/cgroup; nothing is written, even where it could be.
constexpr char kMountAll[] = R"(
while IFS=: read id what path; do
  /bin/busybox mkdir -p /tmp/m$id
  case $what in
    '') what=cgroup2; /bin/busybox mount -t cgroup2 x /tmp/m$id || continue ;;
    *) /bin/busybox mount -t cgroup -o $what x /tmp/m$id || continue ;;
  esac
  echo mounted $what
  [ -e /tmp/m$id/release_agent ] && echo found $what
  (: >> /tmp/m$id/release_agent) 2>/dev/null && echo writable $what
done < /proc/self/cgroup
echo end
exec sleep 1000
)";

size_t CountLines(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

class CgroupRootsTest : public test_support::RuntimeTest {
 protected:
  // A container of pod p1 that may mount. Returns its process and its output.
  std::pair<pid_t, std::string> MountAll(const std::string& id) {
    model::ContainerSpec spec = node_->Container("p1", id, {"/bin/sh", "-c", kMountAll});
    spec.security.add_capabilities = {"SYS_ADMIN"};
    auto started = runtime_->Start(spec);
    EXPECT_TRUE(started) << started.error().error.message();
    std::string log;
    EXPECT_TRUE(Eventually([&] {
      log = ReadText(node_->LogPath(spec));
      return log.ends_with(" end\n");
    })) << log;
    return {started ? started->pid : 0, log};
  }

  // Hierarchies in whose root `pid` is, as the node sees it.
  static std::vector<std::string> RootsOf(pid_t pid) {
    std::vector<std::string> roots;
    const std::string text = ReadText(StrCat("/proc/", pid, "/cgroup"));
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      const std::string line = text.substr(at, end - at);
      if (line.ends_with(":/")) roots.push_back(line);
      at = end + 1;
    }
    return roots;
  }

  // Of all pods.
  std::vector<pid_t> Processes() const {
    const std::string tree =
        StrCat(DetectCgroupLayout("/sys/fs/cgroup")->hierarchies[0].mount_point,
               node_->cgroup_parent(), "/kubepods");
    std::vector<pid_t> pids;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(tree)) {
      if (entry.path().filename() != "cgroup.procs") continue;
      std::ifstream procs(entry.path());
      for (pid_t pid = 0; procs >> pid;) pids.push_back(pid);
    }
    return pids;
  }
};

TEST_F(CgroupRootsTest, NoHierarchyShowsTheNodesRoot) {
  ASSERT_TRUE(runtime_->EnsureSandbox(node_->Sandbox("p1")));
  const auto [pid, log] = MountAll("a1");
  const CgroupLayout layout = *DetectCgroupLayout("/sys/fs/cgroup");
  EXPECT_TRUE(layout.left_out.empty()) << layout.left_out[0];
  EXPECT_EQ(CountLines(log, " mounted "), layout.hierarchies.size()) << log;
  EXPECT_EQ(log.find(" found "), std::string::npos) << log;
  EXPECT_EQ(log.find(" writable "), std::string::npos) << log;
  EXPECT_EQ(RootsOf(pid), std::vector<std::string>{});
}

TEST_F(CgroupRootsTest, NorDoesAnExecOrTheInitOfASharedProcessNamespace) {
  model::SandboxSpec sandbox = node_->Sandbox("p1");
  sandbox.share_process_namespace = true;
  ASSERT_TRUE(runtime_->EnsureSandbox(sandbox));
  model::ContainerSpec spec = node_->Container("p1", "a1", {"/bin/sleep", "1000"});
  spec.namespaces.pid = model::NamespaceMode::kPod;
  const auto started = runtime_->Start(spec);
  ASSERT_TRUE(started) << started.error().error.message();
  EXPECT_EQ(RootsOf(started->pid), std::vector<std::string>{});
  ExecSpec exec;
  exec.argv = {"/bin/sleep", "1000"};
  auto session = runtime_->Exec(spec.id, exec);
  ASSERT_TRUE(session) << session.error().message();
  const std::vector<pid_t> pids = Processes();
  EXPECT_EQ(pids.size(), 3u) << "init, container, exec";
  for (const pid_t pid : pids) EXPECT_EQ(RootsOf(pid), std::vector<std::string>{});
}

TEST_F(CgroupRootsTest, NorDoesAContainerInAUserNamespace) {
  model::SandboxSpec sandbox = node_->Sandbox("p1");
  sandbox.host_users = false;
  const auto ensured = runtime_->EnsureSandbox(sandbox);
  if (!ensured && ensured.error().code() == Code::kUnsupported)
    GTEST_SKIP() << "kernel lacks user namespaces";
  ASSERT_TRUE(ensured) << ensured.error().message();
  model::ContainerSpec spec = node_->Container("p1", "a1", {"/bin/sleep", "1000"});
  const auto started = runtime_->Start(spec);
  ASSERT_TRUE(started) << started.error().error.message();
  EXPECT_EQ(RootsOf(started->pid), std::vector<std::string>{});
}

// What a container that may mount can do to itself there: its end must still be had.
TEST_F(CgroupRootsTest, AContainerThatFrozeItselfCanBeRemoved) {
  ASSERT_TRUE(runtime_->EnsureSandbox(node_->Sandbox("p1")));
  model::ContainerSpec spec = node_->Container(
      "p1", "a1",
      {"/bin/sh", "-c",
       "/bin/busybox mkdir /tmp/f; /bin/busybox mount -t cgroup -o freezer x /tmp/f || exit 1; "
       "/bin/busybox mkdir /tmp/f/in && echo 1 > /tmp/f/in/cgroup.procs; sleep 1000 & "
       "echo FROZEN > /tmp/f/in/freezer.state; echo FROZEN > /tmp/f/freezer.state; sleep 1000"});
  spec.security.add_capabilities = {"SYS_ADMIN"};
  const auto started = runtime_->Start(spec);
  ASSERT_TRUE(started) << started.error().error.message();
  const std::string state = StrCat("/sys/fs/cgroup/freezer", node_->cgroup_parent(),
                                   "/kubepods/besteffort/podp1/in/freezer.state");
  if (!std::filesystem::exists("/sys/fs/cgroup/freezer/tasks")) GTEST_SKIP() << "no v1 freezer";
  ASSERT_TRUE(Eventually([&] { return ReadText(state) == "FROZEN\n"; })) << ReadText(state);
  const auto removed = runtime_->RemoveSandbox(PodUid("p1"));
  EXPECT_TRUE(removed) << removed.error().message();
  if (!removed) std::ofstream(state) << "THAWED";  // so that the node can be taken down
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
}

}  // namespace
}  // namespace holdfast::runtime
