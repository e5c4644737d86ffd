// SPDX-License-Identifier: Apache-2.0
// hostUsers: false from the sandbox to the removal, with a real keeper.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "holdfast/base/strings.h"
#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

using test_support::Eventually;
using test_support::ReadText;
using test_support::RuntimeNode;

class UserNamespaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    node_ = std::make_unique<RuntimeNode>();
    runtime_ = node_->Open();
    Ensure("probe");
    const auto started = runtime_->Start(node_->Container("probe", "e", {"/bin/true"}));
    ASSERT_TRUE(runtime_->RemoveSandbox(PodUid("probe")));
    // What the launcher cannot map it tells as the step's failure, in words only.
    if (!started && started.error().error.message().find("id map") != std::string::npos) {
      GTEST_SKIP() << "kernel lacks id maps for the file system of " << node_->dir();
    }
  }
  void TearDown() override {
    runtime_.reset();
    node_.reset();
  }
  void Ensure(const std::string& uid) {
    model::SandboxSpec spec = node_->Sandbox(uid);
    spec.host_users = false;
    const auto ensured = runtime_->EnsureSandbox(spec);
    ASSERT_TRUE(ensured) << ensured.error().message();
  }
  StartedContainer Start(const model::ContainerSpec& spec) {
    auto started = runtime_->Start(spec);
    EXPECT_TRUE(started) << (started ? "" : started.error().error.message());
    return started ? *started : StartedContainer{};
  }
  static std::string MapOf(pid_t pid) { return ReadText(StrCat("/proc/", pid, "/uid_map")); }
  static uint32_t FirstId(pid_t pid) {
    std::istringstream map(MapOf(pid));
    uint32_t inside = 0;
    uint32_t outside = 0;
    map >> inside >> outside;
    return outside;
  }
  void RemoveAll(const std::vector<std::string>& uids) {
    for (const std::string& uid : uids) {
      const auto removed = runtime_->RemoveSandbox(PodUid(uid));
      EXPECT_TRUE(removed) << removed.error().message();
    }
    EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
  }
  std::string Userns(const std::string& uid) const {
    return StrCat(node_->dir(), "/root/pods/", uid, "/userns");
  }

  std::unique_ptr<RuntimeNode> node_;
  std::unique_ptr<ContainerRuntime> runtime_;
};

TEST_F(UserNamespaceTest, NoBlockDeviceIsGiven) {
  Ensure("pod1");
  auto spec = node_->Container("pod1", "a", {"/bin/true"});
  spec.devices = {{{7, 0, 0660, 0, 6}, "/dev/xvda"}};
  const auto started = runtime_->Start(spec);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().error.message(),
            "block devices (volumeDevices) cannot be given with hostUsers: false");
  RemoveAll({"pod1"});
}

TEST_F(UserNamespaceTest, TwoPodsHaveIdsOfTheirOwnOverARestart) {
  Ensure("pod1");
  Ensure("pod2");
  const auto one = node_->Container("pod1", "a", {"/bin/sleep", "1000"});
  const auto two = node_->Container("pod2", "b", {"/bin/sleep", "1000"});
  const pid_t first = Start(one).pid;
  const pid_t second = Start(two).pid;
  EXPECT_GE(FirstId(first), 65536u);
  EXPECT_GE(FirstId(second), FirstId(first) + 65536);
  EXPECT_NE(ReadText(Userns("pod1")).find(StrCat("\"hostId\":", FirstId(first), ",")),
            std::string::npos);
  EXPECT_NE(ReadText(StrCat("/proc/", first, "/cgroup")).find("podpod1/" + one.id.value),
            std::string::npos);

  runtime_.reset();
  runtime_ = node_->Open();
  const auto more = node_->Container("pod1", "c", {"/bin/sleep", "1000"});
  const pid_t third = Start(more).pid;
  EXPECT_EQ(MapOf(third), MapOf(first));
  EXPECT_EQ(std::filesystem::read_symlink(StrCat("/proc/", third, "/ns/user")),
            std::filesystem::read_symlink(StrCat("/proc/", first, "/ns/user")));
  Ensure("pod3");
  const auto last = node_->Container("pod3", "d", {"/bin/sleep", "1000"});
  const pid_t fourth = Start(last).pid;
  EXPECT_NE(FirstId(fourth), FirstId(first));
  EXPECT_NE(FirstId(fourth), FirstId(second));
  RemoveAll({"pod1", "pod2", "pod3"});
  EXPECT_FALSE(std::filesystem::exists(Userns("pod1")));
}

TEST_F(UserNamespaceTest, AUserWritesToItsStreamsAndVolumesByName) {
  Ensure("pod1");
  const std::string volume = node_->dir() + "/volume";
  std::filesystem::create_directory(volume);
  ASSERT_EQ(::chmod(volume.c_str(), 0777), 0);
  auto spec = node_->Container("pod1", "a",
                               {"/bin/sh", "-c",
                                "echo named > /dev/stdout; echo bad > /dev/stderr;"
                                "read line < /dev/stdin; echo $line;"
                                "echo data > /data/file; id; exec sleep 1000"});
  spec.user.run_as_user = 1000;
  spec.user.run_as_group = 1000;
  model::MountSpec mount;
  mount.source = volume;
  mount.destination = "/data";
  spec.mounts.push_back(mount);
  spec.stdin_open = true;
  const StartedContainer started = Start(spec);
  EXPECT_EQ(started.user->uid, 1000u) << "the pod's own numbers";
  const auto logged = [&](const char* text) {
    return ReadText(spec.log.path).find(text) != std::string::npos;
  };
  EXPECT_TRUE(Eventually([&] { return logged(" stdout F named\n") && logged(" stderr F bad\n"); }))
      << ReadText(spec.log.path);
  // The other end of its standard input is the keeper's: a line comes through the same pipe.
  std::ofstream(StrCat("/proc/", started.pid, "/fd/0")) << "typed" << std::endl;
  EXPECT_TRUE(Eventually([&] { return logged(" stdout F uid=1000 gid=1000"); }))
      << ReadText(spec.log.path);
  EXPECT_TRUE(logged(" stdout F typed\n"));
  struct stat st{};
  ASSERT_EQ(::stat((volume + "/file").c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 1000u) << "a volume keeps the pod's own numbers on disk";
  ASSERT_EQ(::stat(StrCat("/proc/", started.pid).c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, FirstId(started.pid) + 1000);
  RemoveAll({"pod1"});
}

// On every kernel: before Linux 6.3 the tmpfs that such files lie on takes no id map.
TEST_F(UserNamespaceTest, AGeneratedFileBelongsToThePodsRoot) {
  Ensure("pod1");
  const std::string file = node_->dir() + "/generated";
  std::ofstream(file) << "generated\n";
  auto spec = node_->Container(
      "pod1", "a",
      {"/bin/sh", "-c", "stat -c 'owner %u' /etc/hosts; echo added >> /etc/hosts; sleep 1000"});
  model::MountSpec mount;
  mount.kind = model::MountSpec::Kind::kGenerated;
  mount.source = file;
  mount.destination = "/etc/hosts";
  spec.mounts.push_back(mount);
  const pid_t pid = Start(spec).pid;
  EXPECT_TRUE(Eventually([&] { return ReadText(file) == "generated\nadded\n"; }))
      << ReadText(spec.log.path);
  EXPECT_TRUE(Eventually([&] {
    return ReadText(spec.log.path).find(" stdout F owner 0\n") != std::string::npos;
  })) << ReadText(spec.log.path);
  struct stat st{};
  ASSERT_EQ(::stat(file.c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, FirstId(pid));
  EXPECT_EQ(st.st_gid, FirstId(pid));
  RemoveAll({"pod1"});
}

TEST_F(UserNamespaceTest, ExecIsInsideAndWritesToItsStreamsByName) {
  Ensure("pod1");
  const auto spec = node_->Container("pod1", "a", {"/bin/sleep", "1000"});
  const pid_t pid = Start(spec).pid;
  ExecSpec exec;
  exec.argv = {"/bin/sh", "-c", "cat /proc/self/uid_map > /dev/stdout"};
  auto session = runtime_->Exec(spec.id, exec);
  ASSERT_TRUE(session) << session.error().message();
  std::string output;
  char buffer[512];
  for (ssize_t n = 0; (n = ::read((*session)->stdout_fd(), buffer, sizeof buffer)) > 0;) {
    output.append(buffer, static_cast<size_t>(n));
  }
  EXPECT_EQ(output, MapOf(pid));
  const auto report = (*session)->Wait();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->exit_code, 0);
  session->reset();
  // Its records go when the end of the session is noticed.
  const auto is_exec = [](const std::string& left) { return left.starts_with("exit record"); };
  EXPECT_TRUE(Eventually([&] { return std::ranges::none_of(node_->Leftovers(), is_exec); }));
  RemoveAll({"pod1"});
}

TEST_F(UserNamespaceTest, WhatCannotBeIsRefusedWithTheReason) {
  Ensure("pod1");
  auto proc = node_->Container("pod1", "a", {"/bin/true"});
  model::MountSpec mount;
  mount.source = "/proc";
  mount.destination = "/data";
  proc.mounts.push_back(mount);
  auto started = runtime_->Start(proc);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().error.code(), Code::kUnsupported);
  EXPECT_NE(started.error().error.message().find("volume for /data"), std::string::npos)
      << started.error().error.message();
  auto outside = node_->Container("pod1", "b", {"/bin/true"});
  outside.user.run_as_user = 70000;
  started = runtime_->Start(outside);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().phase, StartFailure::Phase::kConfig);
  EXPECT_NE(started.error().error.message().find("id 70000 is not mapped"), std::string::npos);
  RemoveAll({"pod1"});
}

// Found in its container (sandbox_recovery.h).
TEST_F(UserNamespaceTest, APodWhoseNamespacesTheKeeperLostHasThemStill) {
  Ensure("pod1");
  const pid_t first = Start(node_->Container("pod1", "a", {"/bin/sleep", "1000"})).pid;
  runtime_.reset();
  node_->KillKeeper();
  runtime_ = node_->Open();
  Ensure("pod1");
  const pid_t second = Start(node_->Container("pod1", "b", {"/bin/sleep", "1000"})).pid;
  for (const char* name : {"user", "net", "ipc", "uts"}) {
    const auto of = [name](pid_t pid) {
      return std::filesystem::read_symlink(StrCat("/proc/", pid, "/ns/", name));
    };
    EXPECT_EQ(of(first), of(second)) << name;
  }
  RemoveAll({"pod1"});
}

TEST_F(UserNamespaceTest, SharedProcessesAreInsideToo) {
  model::SandboxSpec sandbox = node_->Sandbox("pod1");
  sandbox.host_users = false;
  sandbox.share_process_namespace = true;
  const auto ensured = runtime_->EnsureSandbox(sandbox);
  ASSERT_TRUE(ensured) << ensured.error().message();
  auto spec = node_->Container("pod1", "a", {"/bin/sh", "-c", "cat /proc/1/comm; sleep 1000"});
  spec.namespaces.pid = model::NamespaceMode::kPod;
  Start(spec);
  EXPECT_TRUE(Eventually([&] {
    return ReadText(spec.log.path).find(" stdout F holdfast-init\n") != std::string::npos;
  })) << ReadText(spec.log.path);
  RemoveAll({"pod1"});
}

}  // namespace
}  // namespace holdfast::runtime
