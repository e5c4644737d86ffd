// SPDX-License-Identifier: Apache-2.0
// PersistentVolumes that are block devices: found once, held from then on, let go before they are taken away.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "agent/volume/block_device.h"
#include "agent/volume/persistent_volumes.h"
#include "agent/volume/volumes.h"
#include "tests/fakes/fake_device_holder.h"
#include "tests/support/eventually.h"
#include "tests/support/loop_device.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
namespace corev1 = ::k8s::io::api::core::v1;
using test_support::LoopDevice;

// A plugin that binds a device where it is told to, and cannot take away what is open.
class BindingCsi : public CsiMounter {
 public:
  BindingCsi(const LoopDevice& device, fakes::FakeDeviceHolder& devices)
      : device_(device), devices_(devices) {}

  Result<void> Mount(const corev1::Pod& /*pod*/, const PersistentVolume& /*volume*/,
                     const PlacedVolume& place, const std::atomic<bool>& /*cancelled*/) override {
    ++mounts;
    fs::create_directories(fs::path(place.path).parent_path());
    if (fs::exists(place.path)) return {};
    std::ofstream{place.path} << "";
    if (::mount(device_.path().c_str(), place.path.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      return Error::FromErrno(errno, "bind " + place.path);
    }
    return {};
  }
  Result<void> Expand(const PersistentVolume& /*volume*/, const PlacedVolume& /*place*/,
                      const CsiSecrets& /*secrets*/, int64_t /*bytes*/,
                      const std::atomic<bool>& /*cancelled*/) override {
    return {};
  }
  Result<void> Unmount(const PodUid& /*uid*/, const PlacedVolume& place) override {
    if (devices_.held() != 0) return Conflict("it is open");
    if (::umount2(place.path.c_str(), 0) != 0) {
      return Error::FromErrno(errno, "umount " + place.path);
    }
    fs::remove(place.path);
    return {};
  }

  int mounts = 0;

 private:
  const LoopDevice& device_;
  fakes::FakeDeviceHolder& devices_;
};

class BlockVolumesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    device_ = LoopDevice::Make();
    other_ = LoopDevice::Make();
    if (!device_ || !other_) GTEST_SKIP() << "kernel lacks loop devices for this test";
    std::string pattern = testing::TempDir() + "holdfast-block-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    model::Instance instance;
    instance.root_dir = dir_;
    paths_.emplace(instance, uid_, "default", "web");
    fs::create_directories(paths_->Dir());
    pod_.mutable_metadata()->set_uid(uid_.value);
    csi_.emplace(*device_, devices_);
  }
  void TearDown() override {
    if (dir_.empty()) return;
    (void)Release();
    fs::remove_all(dir_);
  }

  static PersistentVolume Volume(const std::string& source) {
    PersistentVolume volume{.name = "pv1", .spec = {}};
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "volumeMode: 'Block' persistentVolumeSource { " + source + " }", &volume.spec));
    return volume;
  }
  static PersistentVolume Local(const std::string& path) {
    return Volume("local { path: '" + path + "' }");
  }
  std::string Ensure(const PersistentVolume& volume) {
    const auto errors = EnsurePersistentVolumes(pod_, *paths_, {{"data", volume}},
                                                {&*csi_, nullptr, devices_}, cancelled_);
    return errors.empty() ? "" : errors.front().message();
  }
  Result<void> Release() {
    return ReleasePersistentVolumes(uid_, *paths_, {&*csi_, nullptr, devices_});
  }
  PlacedVolume Placed() const { return (*ReadPlacedVolumes(*paths_))["data"]; }
  bool Stands() { return !StandingVolumes(uid_, *ReadPlacedVolumes(*paths_), devices_).empty(); }
  uint32_t HeldMinor() {
    const auto held = devices_.HeldDevice(uid_, "data");
    EXPECT_TRUE(held) << held.error().message();
    return held ? held->minor : 0;
  }

  const PodUid uid_{"u1"};
  const std::atomic<bool> cancelled_ = false;
  std::unique_ptr<LoopDevice> device_, other_;
  std::string dir_;
  std::optional<PodPaths> paths_;
  corev1::Pod pod_;
  fakes::FakeDeviceHolder devices_;
  std::optional<BindingCsi> csi_;
};

TEST_F(BlockVolumesTest, ALocalDiskIsTheOneThatWasFoundFirst) {
  const std::string link = dir_ + "/disk";
  fs::create_symlink(device_->path(), link);
  EXPECT_EQ(Ensure(Local(link)), "");
  EXPECT_TRUE(Placed().ready);
  EXPECT_TRUE(Placed().block);
  EXPECT_TRUE(PlacesOfVolumes(pod_, *paths_, {{"data", Placed()}}).empty())
      << "nothing to be mounted";
  // Whoever may change the path meanwhile.
  fs::remove(link);
  fs::create_symlink(other_->path(), link);
  EXPECT_EQ(Ensure(Local(link)), "");
  EXPECT_EQ(HeldMinor(), device_->minor());
  EXPECT_EQ(BlockDeviceOf(devices_, uid_, "data", Placed())->minor, device_->minor());
  EXPECT_TRUE(Release());
  EXPECT_EQ(devices_.held(), 0u);
  EXPECT_TRUE(Release()) << "again";
}

// What is known of the volume on the disk whenever its device is held or let go; who is killed in between leaves no more
// than that.
class WatchedHolder : public fakes::FakeDeviceHolder {
 public:
  explicit WatchedHolder(const PodPaths& paths) : paths_(paths) {}

  Result<void> HoldDevice(const PodUid& uid, const std::string& volume, int device) override {
    Note("hold");
    return FakeDeviceHolder::HoldDevice(uid, volume, device);
  }
  Result<void> LetGoOfDevice(const PodUid& uid, const std::string& volume) override {
    Note("let go");
    if (fails) return Unavailable("the keeper does not answer");
    return FakeDeviceHolder::LetGoOfDevice(uid, volume);
  }

  std::vector<std::string> calls;
  bool fails = false;

 private:
  void Note(const std::string& call) {
    const auto known = ReadPlacedVolumes(paths_);
    const bool is_known = known && known->contains("data");
    calls.push_back(call + (is_known ? known->at("data").ready ? " ready" : " known" : " unknown"));
  }

  const PodPaths& paths_;
};

TEST_F(BlockVolumesTest, ADeviceIsKnownBeforeItIsHeldAndUntilItWasLetGo) {
  WatchedHolder holder(*paths_);
  const PersistentVolumes wanted = {{"data", Volume("csi { driver: 'd' volumeHandle: 'h' }")}};
  BindingCsi csi(*device_, holder);
  EXPECT_TRUE(
      EnsurePersistentVolumes(pod_, *paths_, wanted, {&csi, nullptr, holder}, cancelled_).empty());
  holder.fails = true;
  EXPECT_FALSE(ReleasePersistentVolumes(uid_, *paths_, {&csi, nullptr, holder}));
  EXPECT_EQ(Placed().handle, "h") << "its plugin was not asked yet";
  holder.fails = false;
  EXPECT_TRUE(ReleasePersistentVolumes(uid_, *paths_, {&csi, nullptr, holder}));
  EXPECT_EQ(holder.calls, (std::vector<std::string>{"hold known", "let go ready", "let go ready"}));
  EXPECT_TRUE(ReadPlacedVolumes(*paths_)->empty());
}

// As after a reboot: a number says nothing any more.
TEST_F(BlockVolumesTest, WhatNobodyHoldsIsFoundAnew) {
  const std::string link = dir_ + "/disk";
  fs::create_symlink(device_->path(), link);
  EXPECT_EQ(Ensure(Local(link)), "");
  EXPECT_TRUE(Stands());
  devices_.Die();
  EXPECT_FALSE(Stands());
  fs::remove(link);
  fs::create_symlink(other_->path(), link);
  EXPECT_EQ(Ensure(Local(link)), "");
  EXPECT_EQ(HeldMinor(), other_->minor());
  devices_.Die();
  const auto device = BlockDeviceOf(devices_, uid_, "data", Placed());
  ASSERT_TRUE(device) << device.error().message();
  EXPECT_EQ(device->minor, other_->minor());
  EXPECT_EQ(devices_.held(), 1u) << "before a container gets it";
}

TEST_F(BlockVolumesTest, APluginsDeviceIsLetGoBeforeItIsAskedToTakeItAway) {
  EXPECT_EQ(Ensure(Volume("csi { driver: 'd' volumeHandle: 'h' }")), "");
  EXPECT_EQ(Placed().path, dir_ + "/plugins/kubernetes.io/csi/volumeDevices/publish/pv1/u1");
  EXPECT_EQ(HeldMinor(), device_->minor());
  EXPECT_EQ(Ensure(Volume("csi { driver: 'd' volumeHandle: 'h' }")), "");
  EXPECT_EQ(csi_->mounts, 1) << "it stands";
  devices_.Die();
  EXPECT_EQ(Ensure(Volume("csi { driver: 'd' volumeHandle: 'h' }")), "");
  EXPECT_EQ(csi_->mounts, 2) << "who knows what lies there now";
  const auto released = Release();
  EXPECT_TRUE(released) << released.error().message();
}

// Its mount is the plugin's: what is held must not be in the way.
TEST_F(BlockVolumesTest, WhatIsHeldKeepsNoMountBusy) {
  const std::string node = dir_ + "/node";
  std::ofstream{node} << "";
  ASSERT_EQ(::mount(device_->path().c_str(), node.c_str(), nullptr, MS_BIND, nullptr), 0);
  const auto open = OpenBlockDevice(node);
  EXPECT_TRUE(open) << open.error().message();
  EXPECT_EQ(::umount2(node.c_str(), 0), 0);
}

TEST_F(BlockVolumesTest, WhatIsNoBlockDeviceIsTold) {
  const std::string failed = "MapVolume.MapBlockVolume failed for volume \"pv1\" : path \"";
  EXPECT_EQ(Ensure(Local(dir_)), failed + dir_ + "\" is no block device");
  EXPECT_EQ(Ensure(Local("/dev/null")), failed + "/dev/null\" is no block device");
  EXPECT_EQ(Ensure(Local(dir_ + "/none")), failed + dir_ + "/none\" does not exist");
  EXPECT_FALSE(Placed().ready);
  EXPECT_EQ(devices_.held(), 0u);
}

}  // namespace
}  // namespace holdfast::agent
