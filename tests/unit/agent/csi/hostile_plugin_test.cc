// SPDX-License-Identifier: Apache-2.0
// Plugins that attack the node: by what they answer, and by links in the directories that the node shares with them. A
// plugin that may mount is the node; these may only write there. A canary lies outside.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/unit/agent/csi/csi_fixture.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;
namespace fs = std::filesystem;
using std::chrono::seconds;
using std::chrono::steady_clock;

class HostilePluginTest : public CsiTest {
 protected:
  void SetUp() override {
    CsiTest::SetUp();
    canary_ = dir_ + "-canary";
    fs::create_directories(canary_ + "/pv1");
    Plant("file");
    Plant("mount");
    Plant("pv1/file");
  }
  void TearDown() override {
    CsiTest::TearDown();
    fs::remove_all(canary_);
  }

  void Plant(const std::string& name) const {
    std::ofstream(canary_ + "/" + name) << "untouched";
    fs::permissions(canary_ + "/" + name, fs::perms(0600));
  }
  // Everything in the canary, with modes.
  std::string Canary() const {
    std::string text;
    std::vector<fs::path> paths;
    for (const auto& entry : fs::recursive_directory_iterator(canary_))
      paths.push_back(entry.path());
    std::ranges::sort(paths);
    for (const fs::path& path : paths) {
      struct stat st{};
      EXPECT_EQ(::lstat(path.c_str(), &st), 0);
      text += StrCat(path.string(), " ", st.st_mode, " ", st.st_gid, "\n");
    }
    return text;
  }
  // Puts a link to the canary where a directory is.
  void SwapForLink(const std::string& path) const {
    if (fs::exists(fs::symlink_status(path + "-aside"))) return;
    fs::rename(path, path + "-aside");
    fs::create_directory_symlink(canary_, path);
  }
  std::string DevicesDir() const { return dir_ + "/plugins/kubernetes.io/csi/volumeDevices"; }
  PlacedVolume Device() const {
    PlacedVolume place = Place("u1");
    place.path = DevicesDir() + "/publish/pv1/u1";
    place.block = true;
    return place;
  }

  std::string canary_;
};

TEST_F(HostilePluginTest, AnAnswerWithoutEndIsNotRead) {
  driver_->topology_bytes = 3 << 20;
  Watch();
  driver_->Start();
  ASSERT_TRUE(Until([this] {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(log_, [](const std::string& line) {
      return line.find("code = ResourceExhausted") != std::string::npos;
    });
  }));
  EXPECT_EQ(drivers_.Find("disk.example"), nullptr);
}

TEST_F(HostilePluginTest, OneThatNeverAnswersKeepsNoOtherFromRegistering) {
  FakeDriver other(dir_ + "/plugins_registry/z.sock", "z.example");
  driver_->Hang("info");
  driver_->Start();
  other.Start();
  Watch();
  EXPECT_TRUE(Until([this] { return drivers_.Find("z.example") != nullptr; }));
  EXPECT_EQ(drivers_.Find("disk.example"), nullptr);
}

TEST_F(HostilePluginTest, ALinkInTheVolumesPlaceGivesNobodyElsesFilesToTheGroup) {
  Register();
  driver_->mischief = [this](const std::string& call) {
    if (call == "publish") fs::create_directory_symlink(canary_, Place("u1").path);
  };
  const std::string before = Canary();
  corev1::Pod pod = Pod("u1");
  pod.mutable_spec()->mutable_securitycontext()->set_fsgroup(::getegid());
  PersistentVolume volume = Volume();
  volume.csi.fs_group_policy = "File";
  EXPECT_FALSE(mounter_->Mount(pod, volume, Place("u1"), cancelled_));
  EXPECT_EQ(Canary(), before);
}

TEST_F(HostilePluginTest, ALinkInTheVolumesPlaceIsNoVolume) {
  Register();
  driver_->mischief = [this](const std::string& call) {
    if (call == "publish") fs::create_directory_symlink(canary_, Place("u1").path);
  };
  EXPECT_NE(Mount("u1"), "") << "containers would be shown the canary";
}

TEST_F(HostilePluginTest, ALinkOnTheWayToTheVolumesPlaceMakesNothingElsewhere) {
  Register();
  fs::create_directories(dir_ + "/pods/u1");
  SwapForLink(dir_ + "/pods/u1");
  const std::string before = Canary();
  fs::remove_all(canary_ + "/pv1");
  const std::string without = Canary();
  EXPECT_NE(Mount("u1"), "");
  EXPECT_EQ(Canary(), without);
  EXPECT_NE(before, without);
}

TEST_F(HostilePluginTest, ALinkThatIsAUserMakesNoFileElsewhere) {
  Register();
  ASSERT_EQ(Mount("u2"), "");
  const fs::path staged = driver_->staged.staging_target_path();
  fs::create_symlink(canary_ + "/new", staged.parent_path() / "users" / "u1~pv1");
  const std::string before = Canary();
  EXPECT_NE(Mount("u1"), "");
  EXPECT_EQ(Canary(), before);
}

TEST_F(HostilePluginTest, AStagedTreeThatBecomesALinkWhileItIsUnstagedTakesNothingWithIt) {
  Register();
  PersistentVolume volume = Volume("volumeMode: 'Block'");
  ASSERT_TRUE(mounter_->Mount(Pod("u1"), volume, Device(), cancelled_));
  driver_->mischief = [this](const std::string& call) {
    if (call == "unstage") SwapForLink(DevicesDir() + "/staging");
  };
  const std::string before = Canary();
  EXPECT_FALSE(mounter_->Unmount(PodUid("u1"), Device()));
  EXPECT_EQ(Canary(), before);
}

TEST_F(HostilePluginTest, APlaceThatBecomesALinkWhileItIsUnpublishedTakesNothingWithIt) {
  Register();
  ASSERT_EQ(Mount("u1"), "");
  driver_->mischief = [this](const std::string& call) {
    if (call == "unpublish") SwapForLink(dir_ + "/pods/u1/pv1");
  };
  const std::string before = Canary();
  EXPECT_NE(Unmount("u1"), "");
  EXPECT_EQ(Canary(), before);
}

TEST_F(HostilePluginTest, ARecordThatIsAPipeHoldsNoAgentUp) {
  Register();
  ASSERT_EQ(Mount("u1"), "");
  const fs::path record =
      fs::path(driver_->staged.staging_target_path()).parent_path() / "vol_data.json";
  fs::remove(record);
  ASSERT_EQ(::mkfifo(record.c_str(), 0600), 0);
  const auto since = steady_clock::now();
  EXPECT_TRUE(NodeCsiMounter(dir_, drivers_).VolumesInUse().empty());
  EXPECT_LT(steady_clock::now() - since, seconds(10));
}

}  // namespace
}  // namespace holdfast::agent
