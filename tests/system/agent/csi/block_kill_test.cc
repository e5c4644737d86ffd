// SPDX-License-Identifier: Apache-2.0
// An agent that is killed while a plugin's block device is made for a pod, or taken away: the next one finishes either, and
// nothing is left at the plugin, in the keeper and on the disk. With a real keeper and a real device.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "agent/csi/node_csi_mounter.h"
#include "agent/volume/persistent_volumes.h"
#include "holdfast/base/strings.h"
#include "runtime/containers/held_devices.h"
#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"
#include "tests/support/killed_process.h"
#include "tests/support/loop_device.h"
#include "tests/unit/agent/csi/fake_driver.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
namespace corev1 = ::k8s::io::api::core::v1;
using test_support::Eventually;
using test_support::LoopDevice;
using test_support::RuntimeNode;

class KeptDevices : public DeviceHolder {
 public:
  explicit KeptDevices(const runtime::keeper::KeeperClient& keeper) : keeper_(keeper) {}
  Result<void> HoldDevice(const PodUid& uid, const std::string& volume, int device) override {
    return runtime::HoldDevice(keeper_, uid, volume, device);
  }
  Result<model::BlockDevice> HeldDevice(const PodUid& uid, const std::string& volume) override {
    return runtime::HeldDevice(keeper_, uid, volume);
  }
  Result<void> LetGoOfDevice(const PodUid& uid, const std::string& volume) override {
    return runtime::LetGoOfDevice(keeper_, uid, volume);
  }

 private:
  const runtime::keeper::KeeperClient keeper_;
};

// What an agent has of one pod with a block device.
class Agent {
 public:
  Agent(const RuntimeNode& node, const std::string& socket)
      : instance_(node.Options().instance),
        paths_(instance_, uid_, "default", "web"),
        devices_(node.Keeper()),
        mounter_(instance_.root_dir, drivers_) {
    fs::create_directories(paths_.Dir());
    pod_.mutable_metadata()->set_uid(uid_.value);
    auto client = std::make_shared<const CsiClient>(socket);
    auto info = client->Describe(nullptr);
    EXPECT_TRUE(info) << info.error().message();
    drivers_.Put({*info, client});
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "volumeMode: 'Block' persistentVolumeSource { csi { driver: 'disk.example' volumeHandle: "
        "'h1' } }",
        &volume_.spec));
  }

  std::string Make() {
    const auto errors = EnsurePersistentVolumes(pod_, paths_, {{"data", volume_}},
                                                {&mounter_, nullptr, devices_}, cancelled_);
    return errors.empty() ? "" : errors.front().message();
  }
  std::string TakeAway() {
    const auto done = ReleasePersistentVolumes(uid_, paths_, {&mounter_, nullptr, devices_});
    return done ? "" : done.error().message();
  }
  uint32_t HeldMinor() {
    return devices_.HeldDevice(uid_, "data").value_or(model::BlockDevice()).minor;
  }
  // In words; empty on a clean node.
  std::vector<std::string> Left(const runtime::keeper::KeeperClient& keeper) const {
    std::vector<std::string> left = mounter_.VolumesInUse();
    const auto placed = ReadPlacedVolumes(paths_);
    EXPECT_TRUE(placed) << placed.error().message();
    for (const auto& [name, volume] : *placed) left.push_back("record " + name);
    const auto held = runtime::ListHeldDevices(keeper);
    EXPECT_TRUE(held) << held.error().message();
    for (const runtime::HeldVolume& device : *held) left.push_back("held " + device.volume);
    const std::string plugins = instance_.root_dir + "/plugins/kubernetes.io/csi/";
    for (const char* folder : {"disk.example", "volumeDevices/staging", "volumeDevices/publish"}) {
      if (!fs::exists(plugins + folder)) continue;
      for (const auto& entry : fs::directory_iterator(plugins + folder)) {
        left.push_back(entry.path());
      }
    }
    return left;
  }

 private:
  const PodUid uid_{"u1"};
  const std::atomic<bool> cancelled_ = false;
  const model::Instance instance_;
  const PodPaths paths_;
  KeptDevices devices_;
  CsiDrivers drivers_;
  NodeCsiMounter mounter_;
  corev1::Pod pod_;
  PersistentVolume volume_{.name = "pv1", .spec = {}};
};

// No test: the process that the test below starts and kills.
TEST(Driver, DISABLED_HasABlockDevice) {
  const char* const directory = std::getenv("NODE_DIRECTORY");
  ASSERT_NE(directory, nullptr);
  Agent agent(RuntimeNode(directory, ""), std::getenv("PLUGIN_SOCKET"));
  EXPECT_EQ(agent.Make(), "");
  EXPECT_EQ(agent.TakeAway(), "");
}

class BlockKillTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    device_ = LoopDevice::Make();
    if (!device_) GTEST_SKIP() << "kernel lacks loop devices for this test";
    node_ = std::make_unique<RuntimeNode>();
    runtime_ = node_->Open();  // with a keeper
    socket_ = node_->dir() + "/csi.sock";
    plugin_ = std::make_unique<FakeDriver>(socket_);
    plugin_->device = device_->path();
    plugin_->Start();
  }
  void TearDown() override {
    plugin_.reset();
    runtime_.reset();
    node_.reset();
  }
  void KillAt(const std::string& point) {
    const pid_t driver = test_support::StartDriver(
        "Driver.DISABLED_HasABlockDevice",
        {"NODE_DIRECTORY=" + node_->dir(), "PLUGIN_SOCKET=" + socket_,
         "HOLDFAST_PAUSE_DIR=" + node_->dir() + "/pause", "HOLDFAST_PAUSE_AT=" + point});
    EXPECT_TRUE(test_support::WaitForStop(driver)) << point;
    test_support::Kill(driver);
  }
  // The calls that took something away; what was made is made by as many calls as it takes.
  size_t Count(const std::string& call) {
    for (std::string& more : plugin_->Calls()) calls_.push_back(std::move(more));
    return static_cast<size_t>(std::ranges::count(calls_, call));
  }

  std::unique_ptr<LoopDevice> device_;
  std::unique_ptr<RuntimeNode> node_;
  std::unique_ptr<ContainerRuntime> runtime_;
  std::string socket_;
  std::unique_ptr<FakeDriver> plugin_;
  std::vector<std::string> calls_;
};

TEST_F(BlockKillTest, AtEveryPausePoint) {
  for (const char* point :
       {"agent.volume.placed_saved:1", "agent.csi.user_marked", "agent.csi.staged",
        "agent.csi.published", "agent.volume.device_held", "agent.volume.placed_saved:2",
        "agent.volume.device_let_go", "agent.csi.unpublished", "agent.csi.user_unmarked",
        "agent.csi.unstaged", "agent.volume.placed_saved:3"}) {
    for (const bool wanted : {false, true}) {
      SCOPED_TRACE(StrCat(point, wanted ? ", made again" : ", taken away"));
      calls_.clear();
      KillAt(point);
      Agent next(*node_, socket_);
      if (wanted) {
        EXPECT_EQ(next.Make(), "");
        EXPECT_EQ(next.HeldMinor(), device_->minor());
        EXPECT_TRUE(plugin_->IsPublished());
      }
      EXPECT_EQ(next.TakeAway(), "");
      EXPECT_EQ(next.Left(node_->Keeper()), std::vector<std::string>{});
      EXPECT_FALSE(plugin_->IsPublished());
      const size_t staged = Count("stage h1");
      if (staged > 0) {
        EXPECT_GE(Count("unstage h1"), 1u);
        EXPECT_EQ(calls_.back(), "unstage h1") << "the last";
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::agent
