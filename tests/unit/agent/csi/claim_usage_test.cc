// SPDX-License-Identifier: Apache-2.0
// What is left of the volumes of claims: who is asked, how often, and what is said of the rest.
#include "agent/csi/claim_usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "holdfast/base/strings.h"
#include "tests/unit/agent/csi/fake_driver.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class ClaimUsageTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/holdfast-csi-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    instance_.root_dir = dir_;
    driver_ = std::make_unique<FakeDriver>(dir_ + "/disk.sock");
    driver_->abilities.push_back(csi::v1::NodeServiceCapability::RPC::GET_VOLUME_STATS);
  }
  void TearDown() override {
    driver_.reset();
    fs::remove_all(dir_);
  }
  void Register() {
    driver_->Start();
    auto client = std::make_shared<const CsiClient>(dir_ + "/disk.sock");
    auto info = client->Describe(nullptr);
    ASSERT_TRUE(info) << info.error().message();
    drivers_.Put({*info, client});
  }
  // A pod with a claim per volume that is placed.
  ::k8s::io::api::core::v1::Pod Pod(const PlacedVolumes& placed) {
    ::k8s::io::api::core::v1::Pod pod;
    pod.mutable_metadata()->set_namespace_("default");
    pod.mutable_metadata()->set_name("web");
    pod.mutable_metadata()->set_uid("u1");
    for (const auto& [name, volume] : placed) {
      auto* added = pod.mutable_spec()->add_volumes();
      added->set_name(name);
      added->mutable_volumesource()->mutable_persistentvolumeclaim()->set_claimname("of-" + name);
    }
    const PodPaths paths(instance_, PodUid("u1"), "default", "web");
    fs::create_directories(paths.Dir());
    EXPECT_TRUE(WritePlacedVolumes(paths, placed));
    return pod;
  }
  PlacedVolume Csi(bool ready = true) const {
    return {"pv1", "csi", dir_ + "/mount", false, ready, "disk.example", "h1"};
  }

  std::string dir_;
  model::Instance instance_;
  std::unique_ptr<FakeDriver> driver_;
  CsiDrivers drivers_;
};

TEST_F(ClaimUsageTest, APluginIsAskedAMinuteApartAndNotByWhoWantsToKnow) {
  Register();
  ClaimUsage usage(instance_, drivers_);
  const auto pod = Pod({{"data", Csi()}});
  EXPECT_THAT(usage.Of(pod), IsEmpty());
  EXPECT_THAT(driver_->Calls(), IsEmpty());
  usage.Measure();
  EXPECT_THAT(driver_->Calls(), ElementsAre(StrCat("stats h1 ", dir_, "/mount")));
  const auto known = usage.Of(pod);
  ASSERT_TRUE(known.contains("data"));
  const FsUsage& data = known.at("data");
  EXPECT_EQ(data.capacity, 1000u);
  EXPECT_EQ(data.available, 700u);
  EXPECT_EQ(data.used, 300u);
  EXPECT_EQ(data.inodes, 50u);
  EXPECT_EQ(data.inodes_free, 40u);
  EXPECT_EQ(data.inodes_used, 0u) << "it said less than none";
  usage.Measure();
  EXPECT_THAT(driver_->Calls(), IsEmpty());
}

TEST_F(ClaimUsageTest, WhoCannotTellIsNotAsked) {
  driver_->abilities.pop_back();
  Register();
  ClaimUsage usage(instance_, drivers_);
  PlacedVolume unknown = Csi();
  unknown.path += "-2";
  unknown.driver = "gone.example";
  const auto pod =
      Pod({{"data", Csi()},
           {"half", {"pv2", "csi", dir_ + "/half", false, false, "disk.example", "h2"}},
           {"other", unknown},
           {"path", {"pv3", "hostPath", dir_, false, true}}});
  (void)usage.Of(pod);
  usage.Measure();
  EXPECT_THAT(usage.Of(pod), IsEmpty());
  EXPECT_THAT(driver_->Calls(), IsEmpty());
}

TEST_F(ClaimUsageTest, ALocalVolumeIsItsFileSystem) {
  ClaimUsage usage(instance_, drivers_);
  const auto pod = Pod({{"disk", {"pv4", "local", dir_, false, true}},
                        {"block", {"pv5", "local", dir_ + "/.", false, true, "", "", true}}});
  (void)usage.Of(pod);
  usage.Measure();
  const auto known = usage.Of(pod);
  ASSERT_TRUE(known.contains("disk"));
  EXPECT_GT(known.at("disk").capacity, known.at("disk").available);
  EXPECT_FALSE(known.contains("block")) << "it has no file system of ours";
}

TEST_F(ClaimUsageTest, APluginThatFailsHasNoNumbersAndOneThatHangsHoldsUpNobodyWhoAsks) {
  Register();
  ClaimUsage usage(instance_, drivers_);
  const auto pod = Pod({{"data", Csi()}});
  driver_->Hang("stats");
  (void)usage.Of(pod);
  std::jthread measuring([&] { usage.Measure(); });
  while (driver_->Calls().empty()) std::this_thread::yield();
  EXPECT_THAT(usage.Of(pod), IsEmpty());
  usage.Measure();  // somebody is at it
  driver_->Fail("stats");
  driver_->Let("stats");
  measuring.join();
  EXPECT_THAT(usage.Of(pod), IsEmpty());
}

}  // namespace
}  // namespace holdfast::agent
