// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/persistent_volumes.h"

#include <fcntl.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "agent/volume/volumes.h"
#include "holdfast/sys/files.h"
#include "tests/fakes/fake_device_holder.h"
#include "tests/support/own_mounts.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
const bool kVolumesOwnMounts = test::EnterOwnMountNamespace();
namespace corev1 = ::k8s::io::api::core::v1;

class PersistentVolumesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kVolumesOwnMounts) GTEST_SKIP() << "no mount namespace of its own";
    std::string pattern = testing::TempDir() + "holdfast-persistent-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    model::Instance instance;
    instance.root_dir = dir_;
    paths_.emplace(instance, PodUid("u1"), "default", "web");
    fs::create_directories(paths_->Dir());
    fs::create_directory(dir_ + "/disk");
    pod_.mutable_metadata()->set_uid("u1");
  }
  void TearDown() override {
    if (dir_.empty()) return;
    test::UnmountEntries(paths_->Volumes() + "/kubernetes.io~local-volume");
    fs::remove_all(dir_);
  }

  PersistentVolume Volume(const std::string& spec) const {
    PersistentVolume volume{.name = "pv1", .spec = {}};
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(spec, &volume.spec));
    return volume;
  }
  PersistentVolume Local(const std::string& path) const {
    return Volume("persistentVolumeSource { local { path: '" + path + "' } }");
  }
  std::string Ensure(const PersistentVolume& volume) {
    const auto errors = EnsurePersistentVolumes(pod_, *paths_, {{"data", volume}},
                                                {nullptr, nullptr, devices_}, cancelled_);
    return errors.empty() ? "" : errors.front().message();
  }
  Result<void> Release() {
    return ReleasePersistentVolumes(PodUid("u1"), *paths_, {nullptr, nullptr, devices_});
  }
  PlacedVolume Placed() const {
    const auto placed = ReadPlacedVolumes(*paths_);
    EXPECT_TRUE(placed) << placed.error().message();
    return placed->contains("data") ? placed->at("data") : PlacedVolume();
  }

  const std::atomic<bool> cancelled_ = false;
  std::string dir_;
  std::optional<PodPaths> paths_;
  corev1::Pod pod_;
  fakes::FakeDeviceHolder devices_;
};

TEST_F(PersistentVolumesTest, ALocalDirectoryIsBoundAndKnownToWhoComesAfter) {
  PersistentVolume volume = Local(dir_ + "/disk");
  std::ofstream(dir_ + "/disk/mark") << "first";
  volume.read_only = true;
  EXPECT_EQ(Ensure(volume), "");
  const std::string path = paths_->Volumes() + "/kubernetes.io~local-volume/data";
  PlacedVolume expected{"pv1", "local", path, true, true, "", ""};
  expected.bound = true;
  EXPECT_EQ(Placed(), expected);
  EXPECT_EQ(StandingVolumes(PodUid("u1"), {{"data", Placed()}, {"other", {}}}, devices_),
            (std::vector<std::string>{"data"}));
  EXPECT_TRUE(fs::exists(path + "/mark"));
  EXPECT_EQ(PlacesOfVolumes(pod_, *paths_, {{"data", Placed()}}).at("data"),
            (VolumePlace{path, true, dir_}));
  EXPECT_TRUE(Release());
  EXPECT_TRUE(Release()) << "again";
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::exists(dir_ + "/disk/mark")) << "it was only unbound";
}

// Whoever may write where the directory lies; containers that start later get what the pod was given.
TEST_F(PersistentVolumesTest, WhatIsPutInALocalDirectorysPlaceIsNotShown) {
  std::ofstream(dir_ + "/disk/mark") << "first";
  EXPECT_EQ(Ensure(Local(dir_ + "/disk")), "");
  fs::rename(dir_ + "/disk", dir_ + "/moved");
  fs::create_directory_symlink("/etc", dir_ + "/disk");
  EXPECT_EQ(Ensure(Local(dir_ + "/disk")), "") << "another container of the pod";
  EXPECT_TRUE(fs::exists(Placed().path + "/mark"));
  EXPECT_FALSE(fs::exists(Placed().path + "/passwd"));
}

// Of an agent that was killed right after it had bound it.
TEST_F(PersistentVolumesTest, WhatWasBoundAndNotWrittenDownIsBoundOnce) {
  EXPECT_EQ(Ensure(Local(dir_ + "/disk")), "");
  PlacedVolume begun = Placed();
  begun.ready = false;
  ASSERT_TRUE(WritePlacedVolumes(*paths_, {{"data", begun}}));
  EXPECT_TRUE(StandingVolumes(PodUid("u1"), {{"data", Placed()}}, devices_).empty());
  EXPECT_EQ(Ensure(Local(dir_ + "/disk")), "");
  EXPECT_TRUE(Placed().ready);
  EXPECT_TRUE(Release());
  EXPECT_FALSE(fs::exists(begun.path)) << "nothing is mounted below";
}

// One that a former agent used where it lies, and one whose mount a reboot took away.
TEST_F(PersistentVolumesTest, WhatIsNotBoundStandsOnlyInOlderRecords) {
  const PlacedVolume old = {"pv1", "local", dir_ + "/disk", false, true, "", ""};
  ASSERT_TRUE(WritePlacedVolumes(*paths_, {{"data", old}}));
  EXPECT_EQ(Ensure(Local(dir_ + "/disk")), "");
  EXPECT_EQ(Placed(), old) << "its containers have it";
  EXPECT_TRUE(Release());
  EXPECT_EQ(Ensure(Local(dir_ + "/disk")), "");
  const std::string path = Placed().path;
  ASSERT_EQ(::umount2(path.c_str(), MNT_DETACH), 0);
  EXPECT_TRUE(StandingVolumes(PodUid("u1"), {{"data", Placed()}}, devices_).empty());
  EXPECT_EQ(Ensure(Local(dir_ + "/disk")), "");
  EXPECT_EQ(StandingVolumes(PodUid("u1"), {{"data", Placed()}}, devices_).size(), 1u);
}

TEST_F(PersistentVolumesTest, AHostPathIsMadeAsItsTypeSays) {
  EXPECT_EQ(Ensure(Volume("persistentVolumeSource { hostPath { path: '" + dir_ +
                          "/made' type: 'DirectoryOrCreate' } }")),
            "");
  EXPECT_TRUE(fs::is_directory(dir_ + "/made"));
  EXPECT_EQ(Placed().kind, "hostPath");
}

TEST_F(PersistentVolumesTest, WhatCannotBeUsedIsTold) {
  const std::string failed = "MountVolume.SetUp failed for volume \"pv1\" : ";
  std::ofstream(dir_ + "/file") << "";
  EXPECT_EQ(Ensure(Local(dir_ + "/none")), failed + "path \"" + dir_ + "/none\" does not exist");
  EXPECT_EQ(Ensure(Local(dir_ + "/file")),
            failed + "path \"" + dir_ + "/file\" is no directory: mount the disk there");
  EXPECT_EQ(Ensure(Volume("persistentVolumeSource { local { path: '/' } } mountOptions: 'x'")),
            failed + "Mount options are not supported for volumes of the kind local");
  EXPECT_EQ(Ensure(Volume("persistentVolumeSource { iscsi {} }")),
            failed + "no volume plugin matched: this kind of volume is not supported");
  EXPECT_EQ(Placed(), PlacedVolume()) << "nothing that was not made is known";
}

TEST_F(PersistentVolumesTest, APathThatStepsBackIsNoneOfItsDirectory) {
  const std::string failed = "MountVolume.SetUp failed for volume \"pv1\" : ";
  const std::string path = dir_ + "/disk/..";
  EXPECT_EQ(Ensure(Local(path)), failed + "invalid path: " + path + " must not contain '..'");
  EXPECT_EQ(Ensure(Volume("persistentVolumeSource { hostPath { path: '" + path + "' } }")),
            failed + "invalid HostPath `" + path + "`: must not contain '..'");
  EXPECT_EQ(Ensure(Local(path + "/disk")),
            failed + "invalid path: " + path + "/disk must not contain '..'");
  fs::create_directory(dir_ + "/disk/..a");
  EXPECT_EQ(Ensure(Local(dir_ + "/disk/..a")), "") << "a name like any other";
}

TEST_F(PersistentVolumesTest, OneThatFailsHoldsNoOtherUp) {
  const auto errors = EnsurePersistentVolumes(
      pod_, *paths_, {{"bad", Local(dir_ + "/none")}, {"data", Local(dir_ + "/disk")}},
      {nullptr, nullptr, devices_}, cancelled_);
  EXPECT_EQ(errors.size(), 1u);
  EXPECT_TRUE(Placed().ready);
}

TEST_F(PersistentVolumesTest, TheGroupIsGivenOnce) {
  const std::string file = dir_ + "/disk/file";
  std::ofstream{file} << "x";
  const auto mode = [&file] { return fs::status(file).permissions() & fs::perms::all; };
  fs::permissions(file, fs::perms(0600));
  pod_.mutable_spec()->mutable_securitycontext()->set_fsgroup(::getegid());
  EXPECT_EQ(Ensure(Local(dir_ + "/disk")), "");
  EXPECT_EQ(mode(), fs::perms(0660));
  fs::permissions(file, fs::perms(0600));
  EXPECT_EQ(Ensure(Local(dir_ + "/disk")), "");
  EXPECT_EQ(mode(), fs::perms(0600)) << "not while the pod uses it";
}

TEST_F(PersistentVolumesTest, ADamagedRecordIsNoEmptyOne) {
  std::ofstream(paths_->PlacedVolumes()) << "{";
  EXPECT_FALSE(ReadPlacedVolumes(*paths_));
  EXPECT_NE(Ensure(Local(dir_ + "/disk")), "");
  std::ofstream(paths_->PlacedVolumes()) << R"({"version": 5, "volumes": {}})";
  EXPECT_FALSE(ReadPlacedVolumes(*paths_));
}

// An agent that does not know block devices must not think that it has taken one away.
TEST_F(PersistentVolumesTest, ARecordWithABlockDeviceIsOfANewerVersion) {
  const auto version = [this] {
    return std::string(*sys::ReadFileAt(AT_FDCWD, paths_->PlacedVolumes(), 1 << 20))
               .find("\"version\":2") != std::string::npos;
  };
  PlacedVolumes volumes = {{"a", {.name = "pv", .kind = "local", .path = "/disk"}}};
  ASSERT_TRUE(WritePlacedVolumes(*paths_, volumes));
  EXPECT_FALSE(version()) << "as former agents write it";
  EXPECT_EQ(*ReadPlacedVolumes(*paths_), volumes);
  volumes["b"] = {.name = "pv2", .kind = "csi", .path = "/x", .ready = true, .block = true};
  ASSERT_TRUE(WritePlacedVolumes(*paths_, volumes));
  EXPECT_TRUE(version());
  EXPECT_EQ(*ReadPlacedVolumes(*paths_), volumes);
}

// Nor that it has unmounted what it does not know.
TEST_F(PersistentVolumesTest, ARecordWithAMountIsOfANewerVersionStill) {
  const PlacedVolumes volumes = {
      {"a", {.name = "pv", .kind = "nfs", .path = "/x", .read_only = true, .ready = true}}};
  ASSERT_TRUE(WritePlacedVolumes(*paths_, volumes));
  const std::string text = *sys::ReadFileAt(AT_FDCWD, paths_->PlacedVolumes(), 1 << 20);
  EXPECT_NE(text.find("\"version\":3"), std::string::npos) << text;
  EXPECT_EQ(*ReadPlacedVolumes(*paths_), volumes);
  EXPECT_EQ(Ensure(Local(dir_ + "/disk")), "");
  EXPECT_NE(sys::ReadFileAt(AT_FDCWD, paths_->PlacedVolumes(), 1 << 20)->find("\"version\":4"),
            std::string::npos);
}

TEST_F(PersistentVolumesTest, ALinkThatSomebodyPutInTheVolumesPlaceIsNotFollowed) {
  const PlacedVolume volume = {
      .name = "pv", .kind = "csi", .path = paths_->CsiVolume("pv"), .ready = true};
  fs::create_directories(volume.path);
  const VolumePlace place = PlacesOfVolumes(pod_, *paths_, {{"data", volume}}).at("data");
  EXPECT_EQ(place, (VolumePlace{volume.path, false, dir_, true}));
  model::MountSpec mount;
  mount.source = place.path;
  mount.sub_path = "made";
  mount.source_root = place.root;
  EXPECT_TRUE(EnsureSubPath(mount));
  fs::rename(volume.path, volume.path + "-aside");
  fs::create_directory_symlink(dir_ + "/disk", volume.path);
  EXPECT_FALSE(EnsureSubPath(mount));
  fs::remove(volume.path);
  fs::rename(volume.path + "-aside", volume.path);
  fs::rename(paths_->Volumes(), paths_->Volumes() + "-aside");
  fs::create_directory_symlink(paths_->Volumes() + "-aside", paths_->Volumes());
  EXPECT_FALSE(EnsureSubPath(mount));
  mount.source = "/etc";
  EXPECT_FALSE(EnsureSubPath(mount));
  EXPECT_FALSE(fs::exists(dir_ + "/disk/made"));
  PlacedVolume host = volume;
  host.path = dir_ + "/disk";
  EXPECT_EQ(PlacesOfVolumes(pod_, *paths_, {{"data", host}}).at("data"),
            (VolumePlace{host.path, false, "", true}))
      << "a link may lead to a disk";
}

TEST_F(PersistentVolumesTest, KindsThatAreNoBlockDevices) {
  EXPECT_EQ(Ensure(Volume("volumeMode: 'Block' persistentVolumeSource { hostPath { path: '/' } }")),
            "MapVolume.FindMapperPluginBySpec failed to find BlockVolumeMapper plugin. Volume "
            "plugin is nil. for volume \"pv1\" : a volume of this kind cannot be a block device");
  EXPECT_EQ(Ensure(Volume("volumeMode: 'Block' persistentVolumeSource { local { path: '/' } } "
                          "mountOptions: 'x'")),
            "MapVolume.MapPodDevice failed for volume \"pv1\" : Mount options are not supported "
            "for volumes of the kind local");
  EXPECT_EQ(Placed(), PlacedVolume());
}

// A plugin, and what is known of its volume on the disk whenever it is asked.
class FakeCsi : public CsiMounter {
 public:
  explicit FakeCsi(const PodPaths& paths) : paths_(paths) {}

  Result<void> Mount(const corev1::Pod& /*pod*/, const PersistentVolume& /*volume*/,
                     const PlacedVolume& place, const std::atomic<bool>& /*cancelled*/) override {
    return Note("mount", place);
  }
  Result<void> Expand(const PersistentVolume& /*volume*/, const PlacedVolume& place,
                      const CsiSecrets& /*secrets*/, int64_t /*bytes*/,
                      const std::atomic<bool>& /*cancelled*/) override {
    return Note("expand", place);
  }
  Result<void> Unmount(const PodUid& /*uid*/, const PlacedVolume& place) override {
    return Note("unmount", place);
  }

  std::vector<std::string> calls;
  bool fails = false;

 private:
  Result<void> Note(const std::string& call, const PlacedVolume& place) {
    const auto known = ReadPlacedVolumes(paths_);
    const bool is_known = known && known->contains("data") && known->at("data").path == place.path;
    calls.push_back(call + " " + place.handle + (is_known ? " known" : " unknown"));
    if (fails) return Unavailable("no answer");
    return {};
  }

  const PodPaths& paths_;
};

TEST_F(PersistentVolumesTest, APluginsVolumeIsKnownBeforeItIsAskedAndUntilItHasTakenItAway) {
  FakeCsi csi(*paths_);
  const PersistentVolume volume =
      Volume("persistentVolumeSource { csi { driver: 'd' volumeHandle: 'h' } }");
  csi.fails = true;
  EXPECT_EQ(EnsurePersistentVolumes(pod_, *paths_, {{"data", volume}}, {&csi, nullptr, devices_},
                                    cancelled_)
                .size(),
            1u);
  EXPECT_FALSE(Placed().ready) << "containers may not have it";
  EXPECT_FALSE(ReleasePersistentVolumes(PodUid("u1"), *paths_, {&csi, nullptr, devices_}));
  EXPECT_EQ(Placed().handle, "h") << "who knows what the plugin did";
  csi.fails = false;
  EXPECT_TRUE(EnsurePersistentVolumes(pod_, *paths_, {{"data", volume}}, {&csi, nullptr, devices_},
                                      cancelled_)
                  .empty());
  EXPECT_TRUE(Placed().ready);
  EXPECT_EQ(Placed().path, paths_->Volumes() + "/kubernetes.io~csi/pv1/mount");
  EXPECT_TRUE(StandingVolumes(PodUid("u1"), {{"data", Placed()}}, devices_).empty())
      << "nothing is mounted there";
  EXPECT_TRUE(ReleasePersistentVolumes(PodUid("u1"), *paths_, {&csi, nullptr, devices_}));
  EXPECT_TRUE(ReleasePersistentVolumes(PodUid("u1"), *paths_, {&csi, nullptr, devices_}))
      << "again";
  EXPECT_EQ(Placed(), PlacedVolume());
  EXPECT_EQ(csi.calls, (std::vector<std::string>{"mount h known", "unmount h known",
                                                 "mount h known", "unmount h known"}));
}

TEST_F(PersistentVolumesTest, APluginThatPutsNoDeviceThereIsStillAskedToTakeItAway) {
  FakeCsi csi(*paths_);
  const PersistentVolume volume = Volume(
      "volumeMode: 'Block' persistentVolumeSource { csi { driver: 'd' volumeHandle: 'h' } }");
  const auto errors = EnsurePersistentVolumes(pod_, *paths_, {{"data", volume}},
                                              {&csi, nullptr, devices_}, cancelled_);
  ASSERT_EQ(errors.size(), 1u);
  const std::string path = dir_ + "/plugins/kubernetes.io/csi/volumeDevices/publish/pv1/u1";
  EXPECT_EQ(
      errors.front().message(),
      "MapVolume.MapBlockVolume failed for volume \"pv1\" : path \"" + path + "\" does not exist");
  EXPECT_FALSE(Placed().ready);
  EXPECT_TRUE(ReleasePersistentVolumes(PodUid("u1"), *paths_, {&csi, nullptr, devices_}));
  EXPECT_EQ(csi.calls, (std::vector<std::string>{"mount h known", "unmount h known"}));
}

TEST_F(PersistentVolumesTest, WhatIsNotWantedAnyMoreIsNotAskedFor) {
  FakeCsi csi(*paths_);
  const std::atomic<bool> cancelled = true;
  const PersistentVolume volume = Volume("persistentVolumeSource { csi { driver: 'd' } }");
  EXPECT_TRUE(EnsurePersistentVolumes(pod_, *paths_, {{"data", volume}}, {&csi, nullptr, devices_},
                                      cancelled)
                  .empty());
  EXPECT_TRUE(csi.calls.empty());
}

}  // namespace
}  // namespace holdfast::agent
