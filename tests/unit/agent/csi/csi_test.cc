// SPDX-License-Identifier: Apache-2.0
// Storage plugins: how they register, what they are asked in which order, and what is left when something fails.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "agent/csi/node_csi_mounter.h"
#include "agent/csi/plugin_watcher.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"
#include "tests/unit/agent/csi/csi_fixture.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

using Strings = std::vector<std::string>;

TEST_F(CsiTest, APluginThatRegistersIsKnownUntilItsSocketGoes) {
  std::vector<Strings> told;
  drivers_.SetListener([&](const std::vector<CsiDriverInfo>& now) {
    Strings names;
    for (const auto& info : now) names.push_back(info.name + " " + info.node_id);
    const std::lock_guard lock(mutex_);
    told.push_back(names);
  });
  Watch();
  driver_->Start();
  Strings calls;
  ASSERT_TRUE(Until([&] {
    for (const std::string& call : driver_->Calls()) calls.push_back(call);
    return std::ranges::count(calls, "registered") == 1;
  }));
  EXPECT_THAT(calls, ElementsAre("info", "registered"));
  const auto driver = drivers_.Find("disk.example");
  ASSERT_NE(driver, nullptr);
  EXPECT_TRUE(driver->info.stages);
  EXPECT_EQ(driver->info.most_volumes, 16);
  EXPECT_EQ(driver->info.topology.at("zone"), "z1");
  driver_->Stop();
  fs::remove(dir_ + "/plugins_registry/disk.sock");
  EXPECT_TRUE(Until([&] { return drivers_.Find("disk.example") == nullptr; }));
  watcher_.reset();
  EXPECT_THAT(told, ElementsAre(IsEmpty(), ElementsAre("disk.example node-7"), IsEmpty()));
}

TEST_F(CsiTest, APluginThatComesBackIsAskedAnew) {
  Watch();
  driver_->Start();
  ASSERT_TRUE(Until([&] { return drivers_.Find("disk.example") != nullptr; }));
  driver_->Stop();
  fs::remove(dir_ + "/plugins_registry/disk.sock");
  driver_->node_id = "node-8";
  driver_->Start();
  EXPECT_TRUE(Until([&] {
    const auto driver = drivers_.Find("disk.example");
    return driver != nullptr && driver->info.node_id == "node-8";
  }));
}

TEST_F(CsiTest, OneThatTookAnothersPlaceStaysWhenThatGoes) {
  Watch();
  driver_->Start();
  ASSERT_TRUE(Until([&] { return drivers_.Find("disk.example") != nullptr; }));
  FakeDriver newer(dir_ + "/plugins_registry/newer.sock");
  newer.node_id = "node-8";
  newer.Start();
  ASSERT_TRUE(Until([&] { return drivers_.Find("disk.example")->info.node_id == "node-8"; }));
  driver_->Stop();
  fs::remove(dir_ + "/plugins_registry/disk.sock");
  ASSERT_TRUE(Until([&] {
    const std::lock_guard lock(mutex_);
    return !log_.empty() && log_.back() == "storage plugin disk.example is gone";
  }));
  EXPECT_NE(drivers_.Find("disk.example"), nullptr);
  watcher_.reset();
}

TEST_F(CsiTest, WhatIsNoStoragePluginIsRefused) {
  driver_->type = "TapePlugin";
  driver_->Start();
  Watch();
  Strings calls;
  EXPECT_TRUE(Until([&] {
    for (const std::string& call : driver_->Calls()) calls.push_back(call);
    return calls.size() >= 2;
  }));
  EXPECT_EQ(calls.at(1), "refused: no handler registered for plugin type: TapePlugin");
  EXPECT_EQ(drivers_.Find("disk.example"), nullptr);
}

TEST_F(CsiTest, OneThatIsThereIsPublishedAgainAndNotStaged) {
  Register();
  EXPECT_EQ(Mount("u1"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("stage h1", "publish h1"));
  PersistentVolume volume = Volume();
  volume.csi.tokens = "{}";
  PlacedVolume place = Place("u1");
  place.ready = true;
  fs::remove(place.path);  // the fake makes it anew
  ASSERT_TRUE(mounter_->Mount(Pod("u1"), volume, place, cancelled_));
  EXPECT_THAT(driver_->Calls(), ElementsAre("publish h1"));
  EXPECT_EQ(driver_->published.staging_target_path(), driver_->staged.staging_target_path());
  EXPECT_EQ(driver_->published.volume_context().at("csi.storage.k8s.io/serviceAccount.tokens"),
            "{}");
  EXPECT_EQ(driver_->published.secrets_size(), 0);
}

TEST_F(CsiTest, TokensAmongTheSecrets) {
  Register();
  PersistentVolume volume = Volume();
  volume.csi.tokens = "{}";
  volume.csi.tokens_are_secret = true;
  volume.csi.publish_secrets = std::make_shared<const std::map<std::string, std::string>>(
      std::map<std::string, std::string>{{"key", "1"}});
  EXPECT_EQ(Mount("u1", volume), "");
  const auto& secrets = driver_->published.secrets();
  EXPECT_EQ(secrets.size(), 2u);
  EXPECT_EQ(secrets.at("csi.storage.k8s.io/serviceAccount.tokens"), "{}");
  EXPECT_EQ(driver_->published.volume_context().count("csi.storage.k8s.io/serviceAccount.tokens"),
            0u);
}

// An inline volume's attributes are the pod author's, who is not to say whose pod it is.
TEST_F(CsiTest, AVolumesAttributesDoNotSayWhosePodItIs) {
  Register();
  PersistentVolume volume = Volume();
  auto& attributes =
      *volume.spec.mutable_persistentvolumesource()->mutable_csi()->mutable_volumeattributes();
  attributes["csi.storage.k8s.io/pod.namespace"] = "kube-system";
  attributes["csi.storage.k8s.io/serviceAccount.tokens"] = "stolen";
  volume.csi.pod_info = {{"csi.storage.k8s.io/pod.namespace", "ns"}};
  volume.csi.tokens = "{}";
  EXPECT_EQ(Mount("u1", volume), "");
  const auto& context = driver_->published.volume_context();
  EXPECT_EQ(context.at("csi.storage.k8s.io/pod.namespace"), "ns");
  EXPECT_EQ(context.at("csi.storage.k8s.io/serviceAccount.tokens"), "{}");
}

TEST_F(CsiTest, AVolumeGrowsWhereItLies) {
  using RPC = csi::v1::NodeServiceCapability::RPC;
  driver_->abilities.push_back(RPC::EXPAND_VOLUME);
  Register();
  EXPECT_EQ(Mount("u1"), "");
  const auto secrets = std::make_shared<const std::map<std::string, std::string>>(
      std::map<std::string, std::string>{{"key", "1"}});
  const auto expand = [&] {
    return mounter_->Expand(Volume(), Place("u1"), secrets, 2 << 20, cancelled_);
  };
  ASSERT_TRUE(expand());
  const auto& asked = driver_->expanded;
  EXPECT_EQ(asked.volume_id(), "h1");
  EXPECT_EQ(asked.volume_path(), Place("u1").path);
  EXPECT_EQ(asked.staging_target_path(), driver_->staged.staging_target_path());
  EXPECT_EQ(asked.capacity_range().required_bytes(), 2 << 20);
  EXPECT_EQ(asked.volume_capability().mount().fs_type(), "ext4");
  EXPECT_EQ(asked.secrets().at("key"), "1");

  driver_->Fail("expand");
  const std::vector<std::pair<grpc::StatusCode, Code>> answers = {
      {grpc::StatusCode::OUT_OF_RANGE, Code::kInvalidArgument},
      {grpc::StatusCode::FAILED_PRECONDITION, Code::kConflict},
      {grpc::StatusCode::ABORTED, Code::kUnavailable},
      {grpc::StatusCode::INTERNAL, Code::kInternal}};
  for (const auto& [status, code] : answers) {
    driver_->failure = status;
    const auto failed = expand();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code(), code);
    EXPECT_THAT(failed.error().message(),
                testing::StartsWith("Expander.NodeExpand failed to expand the volume : rpc error: "
                                    "code = "));
  }
}

TEST_F(CsiTest, APluginThatDoesNotLetThemGrow) {
  Register();
  const auto done = mounter_->Expand(Volume(), Place("u1"), nullptr, 2 << 20, cancelled_);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(), "NodeExpand is not supported by the CSI driver disk.example");
}

TEST_F(CsiTest, AVolumeIsStagedOnceForTheNodeAndUnstagedAfterItsLastPod) {
  Register();
  EXPECT_EQ(Mount("u1"), "");
  EXPECT_EQ(Mount("u2"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("stage h1", "publish h1", "stage h1", "publish h1"));
  EXPECT_THAT(InUse(), ElementsAre("kubernetes.io/csi/disk.example^h1"));
  EXPECT_EQ(Unmount("u1"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1"));
  EXPECT_THAT(NodeCsiMounter(dir_, drivers_).VolumesInUse(), ElementsAre(InUse()[0]))
      << "another agent knows";
  EXPECT_EQ(Unmount("u2"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1", "unstage h1"));
  EXPECT_THAT(InUse(), IsEmpty());
  EXPECT_TRUE(fs::is_empty(dir_ + "/plugins/kubernetes.io/csi/disk.example"));
  EXPECT_FALSE(fs::exists(dir_ + "/pods/u1/pv1"));
  EXPECT_EQ(Unmount("u2"), "") << "again";
}

// Two PersistentVolumes of one handle are one volume of the plugin, which knows no PersistentVolumes.
class CsiTwiceTest : public CsiTest {
 protected:
  PlacedVolume PlaceOf(const std::string& uid, const std::string& name, bool block) const {
    PlacedVolume place = Place(uid);
    place.name = name;
    place.path = StrCat(dir_, "/pods/", uid, "/", name, "/mount");
    place.block = block;
    return place;
  }
  std::string MountOne(const std::string& uid, const std::string& name, bool block = false) {
    PersistentVolume volume = Volume(block ? "volumeMode: 'Block'" : "");
    volume.name = name;
    const auto done = mounter_->Mount(Pod(uid), volume, PlaceOf(uid, name, block), cancelled_);
    return done ? "" : done.error().message();
  }
  std::string UnmountOne(const std::string& uid, const std::string& name, bool block = false) {
    const auto done = mounter_->Unmount(PodUid(uid), PlaceOf(uid, name, block));
    return done ? "" : done.error().message();
  }
};

TEST_F(CsiTwiceTest, ItIsUnstagedAfterTheLastOfTwoPods) {
  Register();
  EXPECT_EQ(MountOne("u1", "pv1"), "");
  EXPECT_EQ(MountOne("u2", "pv2"), "");
  EXPECT_EQ(InUse().size(), 1u);
  driver_->Calls();
  EXPECT_EQ(UnmountOne("u1", "pv1"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1"));
  EXPECT_EQ(InUse().size(), 1u);
  EXPECT_EQ(UnmountOne("u2", "pv2"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1", "unstage h1"));
  EXPECT_THAT(InUse(), IsEmpty());
}

TEST_F(CsiTwiceTest, ItIsUnstagedAfterTheLastOfOnePodThatHasBoth) {
  Register();
  EXPECT_EQ(MountOne("u1", "pv1"), "");
  EXPECT_EQ(MountOne("u1", "pv2"), "");
  driver_->Calls();
  EXPECT_EQ(UnmountOne("u1", "pv1"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1")) << "the other one is still mounted";
  NodeCsiMounter next(dir_, drivers_);  // an agent that was started meanwhile
  ASSERT_TRUE(next.Unmount(PodUid("u1"), PlaceOf("u1", "pv2", false)));
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1", "unstage h1"));
  EXPECT_TRUE(fs::is_empty(dir_ + "/plugins/kubernetes.io/csi/disk.example"));
}

// A device is staged where its PersistentVolume says, so each of them is unstaged, each after its own last pod.
TEST_F(CsiTwiceTest, EachDeviceIsUnstagedWhereItWasStaged) {
  Register();
  EXPECT_EQ(MountOne("u1", "pv1", true), "");
  EXPECT_EQ(MountOne("u2", "pv2", true), "");
  EXPECT_EQ(MountOne("u3", "pv2", true), "");
  driver_->Calls();
  EXPECT_EQ(UnmountOne("u1", "pv1", true), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1", "unstage h1"));
  EXPECT_EQ(InUse().size(), 1u) << "the volume is in use all the same";
  EXPECT_EQ(UnmountOne("u2", "pv2", true), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1"));
  EXPECT_EQ(UnmountOne("u3", "pv2", true), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1", "unstage h1"));
  EXPECT_THAT(InUse(), IsEmpty());
}

// As agents before this one marked it.
TEST_F(CsiTwiceTest, APodThatAFormerAgentMarkedIsAUser) {
  Register();
  EXPECT_EQ(MountOne("u1", "pv1"), "");
  EXPECT_EQ(MountOne("u2", "pv2"), "");
  const std::string users = fs::path(driver_->staged.staging_target_path()).parent_path() / "users";
  fs::rename(users + "/u1~pv1", users + "/u1");
  driver_->Calls();
  EXPECT_EQ(UnmountOne("u2", "pv2"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1"));
  EXPECT_EQ(UnmountOne("u1", "pv1"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1", "unstage h1"));
}

class CsiBlockTest : public CsiTest {
 protected:
  static PersistentVolume BlockVolume() { return Volume("volumeMode: 'Block'"); }
  PlacedVolume BlockPlace(const std::string& uid) const {
    PlacedVolume place = Place(uid);
    place.path = Devices() + "/publish/pv1/" + uid;
    place.block = true;
    return place;
  }
  std::string Devices() const { return dir_ + "/plugins/kubernetes.io/csi/volumeDevices"; }
  std::string Map(const std::string& uid) {
    const auto done = mounter_->Mount(Pod(uid), BlockVolume(), BlockPlace(uid), cancelled_);
    return done ? "" : done.error().message();
  }
  std::string Unmap(const std::string& uid) {
    const auto done = mounter_->Unmount(PodUid(uid), BlockPlace(uid));
    return done ? "" : done.error().message();
  }
};

TEST_F(CsiBlockTest, APluginIsToldThatItIsABlockDevice) {
  Register();
  corev1::Pod pod = Pod("u1");
  pod.mutable_spec()->mutable_securitycontext()->set_fsgroup(4711);
  ASSERT_TRUE(mounter_->Mount(pod, BlockVolume(), BlockPlace("u1"), cancelled_))
      << "no group is given to what may be no directory";
  const auto& staged = driver_->staged;
  EXPECT_EQ(staged.staging_target_path(), Devices() + "/staging/pv1");
  EXPECT_TRUE(fs::is_directory(staged.staging_target_path()));
  EXPECT_TRUE(staged.volume_capability().has_block());
  EXPECT_FALSE(staged.volume_capability().has_mount());
  const auto& published = driver_->published;
  EXPECT_EQ(published.target_path(), Devices() + "/publish/pv1/u1");
  EXPECT_EQ(published.staging_target_path(), staged.staging_target_path());
  EXPECT_TRUE(published.volume_capability().has_block());
  EXPECT_EQ(Unmap("u1"), "");
}

TEST_F(CsiBlockTest, NothingIsLeftAfterTheLastPod) {
  Register();
  EXPECT_EQ(Map("u1"), "");
  EXPECT_EQ(Map("u2"), "");
  driver_->Calls();
  EXPECT_THAT(InUse(), ElementsAre("kubernetes.io/csi/disk.example^h1"));
  std::ofstream{Devices() + "/staging/pv1/of-the-plugin"} << "";
  EXPECT_EQ(Unmap("u1"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1"));
  EXPECT_TRUE(fs::exists(Devices() + "/publish/pv1/u2"));
  EXPECT_THAT(NodeCsiMounter(dir_, drivers_).VolumesInUse(), ElementsAre(InUse()[0]))
      << "another agent knows";
  EXPECT_EQ(Unmap("u2"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1", "unstage h1"));
  EXPECT_TRUE(fs::is_empty(Devices() + "/publish"));
  EXPECT_TRUE(fs::is_empty(Devices() + "/staging"));
  EXPECT_THAT(InUse(), IsEmpty());
}

TEST_F(CsiBlockTest, WhatFailsIsToldInItsWordsAndUndone) {
  Register();
  const std::string failed = " failed for volume \"pv1\" : rpc error: code = Internal desc = no ";
  driver_->Fail("stage");
  EXPECT_EQ(Map("u1"), "MapVolume.SetUpDevice" + failed + "stage");
  driver_->Fail("publish");
  EXPECT_EQ(Map("u1"), "MapVolume.MapPodDevice" + failed + "publish");
  driver_->Fail("unpublish");
  EXPECT_EQ(Unmap("u1"), "UnmapVolume.UnmapPodDevice" + failed + "unpublish");
  driver_->Fail("unstage");
  EXPECT_EQ(Unmap("u1"), "UnmapDevice.TearDownDevice" + failed + "unstage");
  EXPECT_EQ(InUse().size(), 1u) << "it is still staged";
  driver_->Fail("");
  driver_->Calls();
  EXPECT_EQ(Unmap("u1"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1", "unstage h1"));
}

TEST_F(CsiBlockTest, ADeviceGrowsWhereItLies) {
  driver_->abilities.push_back(csi::v1::NodeServiceCapability::RPC::EXPAND_VOLUME);
  Register();
  EXPECT_EQ(Map("u1"), "");
  ASSERT_TRUE(mounter_->Expand(BlockVolume(), BlockPlace("u1"), nullptr, 2 << 20, cancelled_));
  EXPECT_EQ(driver_->expanded.volume_path(), Devices() + "/publish/pv1/u1");
  EXPECT_EQ(driver_->expanded.staging_target_path(), Devices() + "/staging/pv1");
  EXPECT_TRUE(driver_->expanded.volume_capability().has_block());
}

TEST_F(CsiTest, WhatAPluginIsTold) {
  Register();
  PersistentVolume volume = Volume();
  volume.read_only = true;
  volume.csi.publish_context = {{"device", "vdb"}};
  volume.csi.pod_info = {{"csi.storage.k8s.io/pod.name", "web"}};
  using Secret = const std::map<std::string, std::string>;
  volume.csi.stage_secrets = std::make_shared<Secret>(Secret{{"key", "of stage"}});
  volume.csi.publish_secrets = std::make_shared<Secret>(Secret{{"key", "of publish"}});
  EXPECT_EQ(Mount("u1", volume), "");
  const auto& staged = driver_->staged;
  EXPECT_EQ(staged.staging_target_path(),
            dir_ +
                "/plugins/kubernetes.io/csi/disk.example/"
                "33112ee14ee469c3eb52fe90322ec81dd404a0093d565a6d71ce77cbc8124e3b/globalmount")
      << "the directory is the SHA-256 of the handle";
  EXPECT_TRUE(fs::is_directory(staged.staging_target_path()));
  EXPECT_EQ(staged.volume_capability().mount().fs_type(), "ext4");
  EXPECT_EQ(staged.volume_capability().mount().mount_flags(0), "noatime");
  EXPECT_EQ(staged.volume_capability().access_mode().mode(),
            csi::v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  EXPECT_EQ(staged.publish_context().at("device"), "vdb");
  EXPECT_EQ(staged.secrets().at("key"), "of stage");
  EXPECT_EQ(staged.volume_context().size(), 1u) << "the pod is not the node's business";
  const auto& published = driver_->published;
  EXPECT_EQ(published.staging_target_path(), staged.staging_target_path());
  EXPECT_EQ(published.target_path(), Place("u1").path);
  EXPECT_TRUE(published.readonly());
  EXPECT_EQ(published.secrets().at("key"), "of publish");
  EXPECT_EQ(published.volume_context().at("a"), "1");
  EXPECT_EQ(published.volume_context().at("csi.storage.k8s.io/pod.name"), "web");
}

TEST_F(CsiTest, AVolumeOfThePodsOwnIsNeverStaged) {
  Register();
  PersistentVolume volume = Volume();
  volume.csi.ephemeral = true;
  EXPECT_EQ(Mount("u1", volume), "");
  EXPECT_EQ(Unmount("u1"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("publish h1", "unpublish h1"));
  EXPECT_EQ(driver_->published.staging_target_path(), "");
}

TEST_F(CsiTest, TheGroupIsThePluginsBusinessWhereItSaysSo) {
  driver_->abilities.push_back(csi::v1::NodeServiceCapability::RPC::VOLUME_MOUNT_GROUP);
  Register();
  corev1::Pod pod = Pod("u1");
  pod.mutable_spec()->mutable_securitycontext()->set_fsgroup(4711);
  EXPECT_TRUE(mounter_->Mount(pod, Volume(), Place("u1"), cancelled_));
  EXPECT_EQ(driver_->published.volume_capability().mount().volume_mount_group(), "4711");
}

TEST_F(CsiTest, WhatFailsIsToldInItsWordsAndUndone) {
  EXPECT_TRUE(drivers_.Find("disk.example") == nullptr);
  Register();
  driver_->Fail("stage");
  EXPECT_EQ(Mount("u1"),
            "MountVolume.MountDevice failed for volume \"pv1\" : rpc error: code = "
            "Internal desc = no stage");
  driver_->Fail("publish");
  EXPECT_EQ(Mount("u1"),
            "MountVolume.SetUp failed for volume \"pv1\" : rpc error: code = Internal "
            "desc = no publish");
  EXPECT_EQ(InUse().size(), 1u) << "who knows what the plugin did";
  driver_->Fail("unpublish");
  EXPECT_EQ(Unmount("u1"),
            "UnmountVolume.TearDown failed for volume \"pv1\" : rpc error: code = "
            "Internal desc = no unpublish");
  driver_->Fail("unstage");
  EXPECT_EQ(Unmount("u1"),
            "UnmountDevice failed for volume \"pv1\" : rpc error: code = Internal "
            "desc = no unstage");
  EXPECT_EQ(InUse().size(), 1u) << "it is still staged";
  driver_->Fail("");
  driver_->Calls();
  EXPECT_EQ(Unmount("u1"), "");
  EXPECT_THAT(driver_->Calls(), ElementsAre("unpublish h1", "unstage h1"));
  EXPECT_THAT(InUse(), IsEmpty());
}

TEST_F(CsiTest, APluginThatIsNotThereIsWaitedFor) {
  mounter_ = std::make_unique<NodeCsiMounter>(dir_, drivers_);
  const std::string missing =
      "kubernetes.io/csi: driver name disk.example not found in the list of "
      "registered CSI drivers";
  EXPECT_EQ(Mount("u1"), "MountVolume.SetUp failed for volume \"pv1\" : " + missing);
  EXPECT_EQ(Unmount("u1"), "UnmountVolume.TearDown failed for volume \"pv1\" : " + missing);
}

TEST_F(CsiTest, APluginThatHangsIsGivenUpWhenNobodyWantsItsAnswer) {
  Register();
  driver_->Hang("publish");
  std::thread mounting = *sys::StartThread("mounting", [this] {
    EXPECT_EQ(Mount("u1"),
              "MountVolume.SetUp failed for volume \"pv1\" : rpc error: code = "
              "Canceled desc = CANCELLED");
  });
  Strings calls;
  EXPECT_TRUE(Until([&] {
    for (const std::string& call : driver_->Calls()) calls.push_back(call);
    return calls.size() == 2;
  }));
  // Nor do another pod of the same volume, and another volume of the same plugin, wait for it.
  EXPECT_EQ(Mount("u3"), "");
  EXPECT_EQ(Unmount("u3"), "");
  PersistentVolume other = Volume();
  other.spec.mutable_persistentvolumesource()->mutable_csi()->set_volumehandle("h2");
  PlacedVolume place = Place("u2");
  place.handle = "h2";
  EXPECT_TRUE(mounter_->Unmount(PodUid("u2"), place));
  cancelled_ = true;
  mounting.join();
  driver_->Let("");
  cancelled_ = false;
  EXPECT_EQ(Unmount("u1"), "");
}

TEST_F(CsiTest, WhoWaitsForAStagingThatHangsCanGo) {
  Register();
  driver_->Hang("stage");
  std::atomic<bool> first = false, second = false;
  const auto mount = [this](const std::string& uid, std::atomic<bool>& cancelled) {
    return *sys::StartThread(uid, [this, uid, &cancelled] {
      EXPECT_FALSE(mounter_->Mount(Pod(uid), Volume(), Place(uid), cancelled));
    });
  };
  std::thread holds = mount("u1", first);
  EXPECT_TRUE(Until([&] { return InUse().size() == 1; }));
  std::thread waits = mount("u2", second);
  second = true;
  waits.join();
  EXPECT_EQ(Unmount("u2"), "");
  first = true;
  holds.join();
  driver_->Let("");
  EXPECT_EQ(Unmount("u1"), "");
  EXPECT_THAT(InUse(), IsEmpty());
}

}  // namespace
}  // namespace holdfast::agent
