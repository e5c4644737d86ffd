// SPDX-License-Identifier: Apache-2.0
// A launcher killed in the middle of a launch takes nothing along: the container starts all the
// same, once, with its terminal and its log, under the id it was asked for.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <optional>

#include "holdfast/base/strings.h"
#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"

namespace holdfast::runtime {
namespace {

namespace fs = std::filesystem;
using test_support::Eventually;
using test_support::RuntimeNode;

struct Case {
  const char* point;
  bool tty;
  bool shared = false;  // shareProcessNamespace: the process is born at the end of the recipe
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.point << (c.tty ? ", terminal" : ", pipes") << (c.shared ? ", shared processes" : "");
}

class LauncherKillTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    node_ = std::make_unique<RuntimeNode>();
    pauses_ = node_->dir() + "/root/pause";  // in the launcher's mount namespace too
    fs::create_directories(pauses_ + "/armed");
    ::setenv("HOLDFAST_PAUSE_AT", "@", 1);
    ::setenv("HOLDFAST_PAUSE_DIR", pauses_.c_str(), 1);
    runtime_ = node_->Open();  // its keeper has the environment
    ::unsetenv("HOLDFAST_PAUSE_AT");
  }

  std::optional<pid_t> StoppedAt(const std::string& point) const {
    for (const auto& entry : fs::directory_iterator(pauses_)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(point)) return std::stoi(name.substr(name.rfind('.') + 1));
    }
    return std::nullopt;
  }

  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // Kills the launcher at the point while `spec` starts.
  void StartWithAKill(const model::ContainerSpec& spec, const std::string& point) {
    std::ofstream(pauses_ + "/armed/" + point);
    auto starting = std::async(std::launch::async, [&] { return runtime_->Start(spec); });
    std::optional<pid_t> stopped;
    ASSERT_TRUE(Eventually([&] { return (stopped = StoppedAt(point)).has_value(); }));
    ::kill(*stopped, SIGKILL);
    const auto started = starting.get();
    ASSERT_TRUE(started) << started.error().error.message();
    EXPECT_EQ(started->id, spec.id);
    EXPECT_EQ(::kill(started->pid, 0), 0);
  }

  std::unique_ptr<RuntimeNode> node_;
  std::unique_ptr<ContainerRuntime> runtime_;
  std::string pauses_;
};

TEST_P(LauncherKillTest, TheContainerStartsAllTheSame) {
  model::SandboxSpec sandbox = node_->Sandbox("pod");
  sandbox.share_process_namespace = GetParam().shared;
  ASSERT_TRUE(runtime_->EnsureSandbox(sandbox));
  model::ContainerSpec spec =
      node_->Container("pod", "a", {"/bin/sh", "-c", "echo begun; exec sleep 1000"});
  spec.tty = GetParam().tty;
  if (GetParam().shared) spec.namespaces.pid = model::NamespaceMode::kPod;
  // A mount of the plan serves one launch only.
  fs::create_directory(node_->dir() + "/root/volume");
  model::MountSpec volume;
  volume.source = node_->dir() + "/root/volume";
  volume.destination = "/volume";
  spec.mounts.push_back(volume);
  ASSERT_NO_FATAL_FAILURE(StartWithAKill(spec, GetParam().point));
  const std::string end = spec.tty ? " F begun\r\n" : " F begun\n";
  EXPECT_TRUE(Eventually([&] { return Read(node_->LogPath(spec)).ends_with(end); }))
      << Read(node_->LogPath(spec));
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

}  // namespace
}  // namespace holdfast::runtime
