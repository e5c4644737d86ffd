// SPDX-License-Identifier: Apache-2.0
// One operation in a process of its own, killed at every pause point that it passes, then a new
// agent: no running container is touched, none is started twice, and nothing is left over.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "holdfast/base/strings.h"
#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"

namespace holdfast::runtime {
namespace {

namespace fs = std::filesystem;
using test_support::Eventually;
using test_support::RuntimeNode;

using Words = std::vector<std::string>;

class KillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    node_ = std::make_unique<RuntimeNode>();
    (void)node_->Open();  // starts the keeper, without a pause point armed
    bystander_ = node_->Container("bystander", "b", {"/bin/sleep", "1000"});
    const auto runtime = node_->Open();
    ASSERT_TRUE(runtime->EnsureSandbox(node_->Sandbox("bystander")));
    const auto started = runtime->Start(bystander_);
    ASSERT_TRUE(started) << started.error().error.message();
    bystander_pid_ = started->pid;
  }
  void TearDown() override { node_.reset(); }

  std::string PauseDir() const { return node_->dir() + "/pause"; }

  pid_t Spawn(const Words& operation, const std::string& pause_at) {
    const std::string program =
        fs::read_symlink("/proc/self/exe").parent_path() / "containers_driver";
    Words words = {program, node_->dir(), node_->cgroup_parent()};
    words.insert(words.end(), operation.begin(), operation.end());
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::setenv("HOLDFAST_PAUSE_AT", pause_at.c_str(), 1);
    ::setenv("HOLDFAST_PAUSE_DIR", PauseDir().c_str(), 1);
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDOUT_FILENO);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }

  // Every passage of every pause point of an undisturbed run: "name:1", "name:2", …
  Words Passages(const Words& operation) {
    const pid_t pid = Spawn(operation, "?");
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << "undisturbed run";
    std::ifstream in(StrCat(PauseDir(), "/passed.", pid));
    std::map<std::string, int> count;
    Words passages;
    for (std::string name; in >> name;) passages.push_back(StrCat(name, ":", ++count[name]));
    return passages;
  }

  // False when the run ended before it came to that point.
  bool KillAt(const Words& operation, const std::string& passage) {
    const pid_t pid = Spawn(operation, passage);
    const std::string file =
        StrCat(PauseDir(), "/", passage.substr(0, passage.find(':')), ".", pid);
    int status = 0;
    bool ended = false;
    EXPECT_TRUE(Eventually([&] {
      ended = ::waitpid(pid, &status, WNOHANG) == pid;
      return ended || fs::exists(file);
    })) << passage;
    if (ended) return false;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    fs::remove(file);
    return true;
  }

  // For each passage: `prepare`, the operation killed there, `check` with a new agent, then what
  // the operation was about is removed and must have left nothing.
  void Sweep(const Words& operation, const std::function<void(ContainerRuntime&)>& prepare,
             const std::function<void(ContainerRuntime&)>& check) {
    prepare(*node_->Open());
    const Words passages = Passages(operation);
    ASSERT_GE(passages.size(), 2u) << "is HOLDFAST_PAUSE_POINTS compiled in?";
    CleanUp(*node_->Open());
    std::set<std::string> points;
    std::set<std::string> killed;
    for (const std::string& passage : passages) {
      SCOPED_TRACE(passage);
      const std::string point = passage.substr(0, passage.find(':'));
      points.insert(point);
      prepare(*node_->Open());
      if (KillAt(operation, passage)) killed.insert(point);
      const auto next = node_->Open();
      check(*next);
      CleanUp(*next);
      if (HasFailure()) return;
    }
    EXPECT_EQ(killed, points);  // how often each is passed is a matter of timing
  }

  // What the agent does with a pod that is not wanted any more; then nothing of it may be left.
  void CleanUp(ContainerRuntime& runtime) {
    for (const ObservedContainer& seen : Listed(runtime)) {
      if (seen.pod_uid != PodUid("pod")) continue;
      EXPECT_TRUE(runtime.Kill(seen.id));
    }
    const auto removed = runtime.RemoveSandbox(PodUid("pod"));
    EXPECT_TRUE(removed) << removed.error().message();
    Words left;
    // A launch that was under way when its agent died may take a moment to be settled.
    EXPECT_TRUE(Eventually([&] {
      left.clear();
      for (const std::string& what : node_->Leftovers()) {
        if (what.find("bystander") == std::string::npos &&
            what.find(bystander_.id.value) == std::string::npos) {
          left.push_back(what);
        }
      }
      return left.empty();
    }));
    EXPECT_EQ(left, Words{});
    EXPECT_TRUE(runtime.Audit({PodUid("bystander")}, false)->empty());
    bool untouched = false;
    for (const ObservedContainer& seen : Listed(runtime)) {
      untouched =
          untouched || (seen.id == bystander_.id && seen.pid == bystander_pid_ && !seen.exit);
    }
    EXPECT_TRUE(untouched) << "the container beside it";
  }
  std::vector<ObservedContainer> Listed(ContainerRuntime& runtime) {
    auto all = runtime.ListContainers();
    EXPECT_TRUE(all);
    return std::move(*all);
  }
  size_t CountOfPod(ContainerRuntime& runtime) {
    size_t count = 0;
    for (const ObservedContainer& seen : Listed(runtime)) {
      if (seen.pod_uid == PodUid("pod")) ++count;
    }
    return count;
  }
  void Ensure(ContainerRuntime& runtime) {
    const auto ensured = runtime.EnsureSandbox(node_->Sandbox("pod"));
    EXPECT_TRUE(ensured) << ensured.error().message();
  }
  pid_t Start(ContainerRuntime& runtime, const std::string& id, Words argv) {
    const auto started = runtime.Start(node_->Container("pod", id, std::move(argv)));
    EXPECT_TRUE(started) << (started ? "" : started.error().error.message());
    return started ? started->pid : 0;
  }
  void AwaitExit(ContainerRuntime& runtime, const ContainerId& id, int code) {
    EXPECT_TRUE(Eventually([&] {
      for (const ObservedContainer& seen : Listed(runtime)) {
        if (seen.id == id && seen.exit) return seen.exit->exit_code == code;
      }
      return false;
    })) << "exit code "
        << code;
  }

  std::unique_ptr<RuntimeNode> node_;
  model::ContainerSpec bystander_;
  pid_t bystander_pid_ = 0;
};

TEST_F(KillTest, EnsureSandbox) {
  Sweep(
      {"ensure", "pod"}, [](ContainerRuntime&) {},
      [this](ContainerRuntime& next) {
        Ensure(next);
        EXPECT_TRUE(next.NetworkNamespace(PodUid("pod")));
        EXPECT_GT(Start(next, "c", {"/bin/sleep", "1000"}), 0);
      });
}

TEST_F(KillTest, EnsureSandboxFromThePool) {
  Sweep(
      {"ensure-pooled", "pod"}, [](ContainerRuntime&) {},
      [this](ContainerRuntime& next) {
        Ensure(next);
        EXPECT_GT(Start(next, "c", {"/bin/cat", "/proc/sys/kernel/hostname"}), 0);
        EXPECT_TRUE(Eventually([this] {
          std::ifstream in(node_->Container("pod", "c", {}).log.path);
          std::string time, stream, tag, name;
          return static_cast<bool>(in >> time >> stream >> tag >> name) && name == "pod";
        })) << "a sandbox of that name is the pod's with its host name only";
      });
}

TEST_F(KillTest, Start) {
  Sweep(
      {"start", "pod", "a", "/bin/sleep", "1000"},
      [this](ContainerRuntime& runtime) { Ensure(runtime); },
      [this](ContainerRuntime& next) {
        // It runs, or it does not; then another try of the agent (a new id) does, and only that.
        const bool runs_already = CountOfPod(next) == 1;
        if (!runs_already) {
          EXPECT_GT(Start(next, "c", {"/bin/sleep", "1000"}), 0);
        }
        EXPECT_EQ(CountOfPod(next), 1u);
      });
}

TEST_F(KillTest, RemoveOfAnEndedContainerKeepsItsExitCodeUntilItIsGone) {
  const ContainerId id = RuntimeNode::Id("a");
  Sweep(
      {"remove", "a"},
      [&](ContainerRuntime& runtime) {
        Ensure(runtime);
        EXPECT_GT(Start(runtime, "a", {"/bin/sh", "-c", "exit 9"}), 0);
        AwaitExit(runtime, id, 9);
      },
      [&](ContainerRuntime& next) {
        if (CountOfPod(next) == 1) AwaitExit(next, id, 9);
        EXPECT_TRUE(next.Remove(id));
        EXPECT_EQ(CountOfPod(next), 0u);
      });
}

TEST_F(KillTest, RemoveSandboxWithARunningContainer) {
  Sweep(
      {"remove-sandbox", "pod"},
      [this](ContainerRuntime& runtime) {
        Ensure(runtime);
        EXPECT_GT(Start(runtime, "a", {"/bin/sleep", "1000"}), 0);
      },
      [](ContainerRuntime& next) { EXPECT_TRUE(next.RemoveSandbox(PodUid("pod"))); });
}

TEST_F(KillTest, Exec) {
  Sweep(
      {"exec", "a", "/bin/true"},
      [this](ContainerRuntime& runtime) {
        Ensure(runtime);
        EXPECT_GT(Start(runtime, "a", {"/bin/sleep", "1000"}), 0);
      },
      [this](ContainerRuntime& next) { EXPECT_EQ(CountOfPod(next), 1u); });
}

// Wherever it was cut: done again, it ends where it was to.
TEST_F(KillTest, Resize) {
  const bool is_v1 = fs::exists("/sys/fs/cgroup/cpu/cpu.shares");
  const auto quota = [&](const std::string& cgroup) {
    const std::string file =
        StrCat(is_v1 ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup", node_->cgroup_parent(),
               "/kubepods/besteffort/podpod", cgroup, is_v1 ? "/cpu.cfs_quota_us" : "/cpu.max");
    std::ifstream in(file);
    std::string text;
    in >> text;
    return text;
  };
  const ContainerId id = RuntimeNode::Id("a");
  const auto resize = [&](ContainerRuntime& runtime, int64_t milli) {
    model::ResourceSpec limited;
    limited.cpu_milli_limit = milli;
    const auto done = runtime.Resize(PodUid("pod"), limited, {{id, "a", limited}});
    EXPECT_TRUE(done) << done.error().message();
    EXPECT_EQ(quota(""), std::to_string(milli * 100));
    EXPECT_EQ(quota("/" + id.value), std::to_string(milli * 100));
  };
  for (const auto& [before, after] : {std::pair<int64_t, int64_t>{100, 700}, {700, 100}}) {
    Sweep(
        {"resize", "pod", "a", std::to_string(after)},
        [&, before = before](ContainerRuntime& runtime) {
          Ensure(runtime);
          EXPECT_GT(Start(runtime, "a", {"/bin/sleep", "1000"}), 0);
          resize(runtime, before);
        },
        [&, after = after](ContainerRuntime& next) {
          EXPECT_EQ(CountOfPod(next), 1u);
          resize(next, after);
        });
  }
}

// The agent that repairs is killed in turn.
TEST_F(KillTest, BeginAfterACutStart) {
  const auto cut_start = [this](ContainerRuntime& runtime) {
    Ensure(runtime);
    EXPECT_TRUE(KillAt({"start", "pod", "a", "/bin/sleep", "1000"}, "containers.start.log:1"));
  };
  Sweep({"begin"}, cut_start, [this](ContainerRuntime& next) {
    EXPECT_TRUE(Eventually(
        [&] { return next.Audit({PodUid("pod"), PodUid("bystander")}, false)->empty(); }));
    EXPECT_EQ(CountOfPod(next), 0u);
  });
}

}  // namespace
}  // namespace holdfast::runtime
