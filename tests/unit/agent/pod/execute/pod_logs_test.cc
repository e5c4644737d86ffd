// SPDX-License-Identifier: Apache-2.0
// What a pod's worker does in the pod log directory while a container that has it mounted puts
// links in the place of directories. One worker, driven by hand.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "agent/pod/execute/pod_worker.h"
#include "agent/view/pod_view_store.h"
#include "tests/support/own_mounts.h"
#include "tests/support/text_file.h"
#include "tests/unit/agent/pod/execute/fakes.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;

constexpr char kSecret[] = "2026-11-21T07:19:31Z stdout F HOSTLOGSECRET\n";

// Goes on by so much at each reading that nothing has to be waited for.
class HurriedClock : public Clock {
 public:
  WallTime Wall() const override { return real_.Wall() + Hurry(); }
  BootTime Boot() const override { return real_.Boot() + Hurry(); }

 private:
  std::chrono::seconds Hurry() const { return std::chrono::seconds(20 * ++readings_); }
  SystemClock real_;
  mutable std::atomic<int> readings_ = 0;
};

corev1::Pod LoggingPod() {
  corev1::Pod pod;
  pod.mutable_metadata()->set_uid("u1");
  pod.mutable_metadata()->set_name("web");
  pod.mutable_metadata()->set_namespace_("default");
  pod.mutable_spec()->set_restartpolicy("Always");
  pod.mutable_spec()->set_dnspolicy("Default");
  corev1::Container* c = pod.mutable_spec()->add_containers();
  c->set_name("app");
  c->set_image("busybox:1");
  c->set_terminationmessagepath("/dev/termination-log");
  c->set_terminationmessagepolicy("FallbackToLogsOnError");
  return pod;
}

class PodLogsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-pod-logs-XXXXXX";
    top_ = ::mkdtemp(pattern);
    instance_.root_dir = top_ + "/root";
    instance_.run_dir = top_ + "/run";
    fs::create_directories(instance_.PodFilesDir());
    instance_.pod_log_dir = top_ + "/log/pods";
    instance_.container_log_dir = top_ + "/log/containers";
    canary_ = top_ + "/canary";
    fs::create_directories(canary_);
    for (int i = 0; i < 300; ++i) {
      std::ofstream(canary_ + "/" + std::to_string(i) + ".log") << kSecret;
    }
    images_.Add("busybox:1");
    state_ = PodStateStore::Open(instance_).value();
    view_ = std::make_unique<PodViewStore>("n1", clock_);
    services_ = std::unique_ptr<PodServices>(new PodServices{
        runtime_, images_, network_, *state_, *view_, clock_, instance_, std::chrono::seconds(0),
        [] { return NodeOf(); }, [](const std::string&) {}});
    auto pool = LanePool::Start(std::vector<size_t>(kPodLanes, 1));
    ASSERT_TRUE(pool);
    pool_ = std::move(*pool);
    worker_ = std::make_unique<PodWorker>(*services_, *pool_, pod_, PodMemory(),
                                          std::chrono::hours(24), [this] {
                                            const std::lock_guard lock(poked_mutex_);
                                            ++poked_;
                                            poked_changed_.notify_all();
                                          });
  }
  void TearDown() override {
    pool_->Stop();
    test::UnmountEntries(instance_.PodFilesDir());
    fs::remove_all(top_);
  }

  static std::shared_ptr<const NodeEnvironment> NodeOf() {
    auto node = std::make_shared<NodeEnvironment>();
    node->node_name = "n1";
    node->host_ips = {"192.0.2.1"};
    return node;
  }

  std::string Directory() const { return instance_.pod_log_dir + "/default_web_u1/app"; }

  // Until the container runs.
  void Start() {
    const size_t before = runtime_.StartCount();
    for (int i = 0; i < 20 && runtime_.StartCount() == before; ++i) Sync();
    ASSERT_EQ(runtime_.StartCount(), before + 1);
  }
  void Sync() {
    // Until no operation ends any more.
    for (bool again = true; again;) {
      worker_->Turn({pod_, std::nullopt});
      std::unique_lock lock(poked_mutex_);
      again = poked_changed_.wait_for(lock, std::chrono::milliseconds(20),
                                      [&] { return poked_ > turned_; });
      turned_ = poked_;
    }
  }
  // Ends with an error; the text in the status.
  std::string MessageOfExit() {
    runtime_.EndAll("app", 3);
    Sync();
    const auto pods = view_->ListPods();
    const auto& status = pods.at(0)->status().containerstatuses(0);
    return status.state().has_terminated() ? status.state().terminated().message()
                                           : status.laststate().terminated().message();
  }
  bool CanaryIsWhole() const {
    for (int i = 0; i < 300; ++i) {
      const std::string path = canary_ + "/" + std::to_string(i) + ".log";
      if (test_support::ReadText(path) != kSecret) return false;
    }
    return std::distance(fs::directory_iterator(canary_), {}) == 300;
  }

  std::string top_;
  std::string canary_;
  model::Instance instance_;
  HurriedClock clock_;
  FakeRuntime runtime_{clock_};
  FakeImages images_;
  FakeNetwork network_;
  std::unique_ptr<PodStateStore> state_;
  std::unique_ptr<PodViewStore> view_;
  std::unique_ptr<PodServices> services_;
  const std::shared_ptr<const corev1::Pod> pod_ = std::make_shared<const corev1::Pod>(LoggingPod());
  std::mutex poked_mutex_;
  std::condition_variable poked_changed_;
  int poked_ = 0;
  int turned_ = 0;
  std::unique_ptr<LanePool> pool_;
  std::unique_ptr<PodWorker> worker_;
};

TEST_F(PodLogsTest, TheEndOfTheLogIsTheMessage) {
  Start();
  std::ofstream(Directory() + "/0.log") << "2026-11-21T07:19:31Z stdout F own words\n";
  EXPECT_EQ(MessageOfExit(), "own words\n");
}

TEST_F(PodLogsTest, ALinkInTheDirectorysPlaceShowsNothing) {
  Start();
  fs::remove_all(Directory());
  fs::create_directory_symlink(canary_, Directory());
  EXPECT_EQ(MessageOfExit(), "");
}

TEST_F(PodLogsTest, AHardLinkInTheFilesPlaceShowsNothing) {
  Start();
  EXPECT_TRUE(fs::remove(Directory() + "/0.log"));
  fs::create_hard_link(canary_ + "/7.log", Directory() + "/0.log");
  EXPECT_EQ(MessageOfExit(), "");
}

// Restarts of which each reads the last log, makes the directory and forgets an old log.
TEST_F(PodLogsTest, NothingOfTheCanaryIsShownOrDeletedWhileNamesAreSwapped) {
  Start();
  const std::string evil = Directory() + ".evil";
  fs::create_directory_symlink(canary_, evil);
  std::atomic<bool> stop = false;
  std::thread swapper([&] {
    const std::string own = Directory();
    while (!stop) {
      ::renameat2(AT_FDCWD, own.c_str(), AT_FDCWD, evil.c_str(), RENAME_EXCHANGE);
    }
  });
  int shown = 0;
  for (int i = 0; i < 200; ++i) {
    if (!MessageOfExit().empty()) ++shown;
    Sync();
  }
  stop = true;
  swapper.join();
  EXPECT_EQ(shown, 0);
  EXPECT_GT(runtime_.StartCount(), 50u);
  EXPECT_TRUE(CanaryIsWhole());
}

}  // namespace
}  // namespace holdfast::agent
