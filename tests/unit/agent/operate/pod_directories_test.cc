// SPDX-License-Identifier: Apache-2.0
#include "agent/operate/pod_directories.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace holdfast::agent {
namespace {

class PodDirectoriesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "holdfast-pods-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    pods_ = pattern;
    Make("lost");
    Make("live");
  }
  void TearDown() override { std::filesystem::remove_all(pods_); }
  void Make(const std::string& uid) { std::filesystem::create_directory(pods_ + "/" + uid); }
  bool Exists(const std::string& uid) { return std::filesystem::exists(pods_ + "/" + uid); }
  std::vector<Leftover> Audit(const std::function<std::set<PodUid>()>& known, bool repair = true) {
    std::vector<Leftover> found;
    const auto remove = [](const std::string& path) -> Result<void> {
      std::filesystem::remove_all(path);
      return {};
    };
    AuditPodDirectories(pods_, known,
                        repair ? std::function<Result<void>(const std::string&)>(remove) : nullptr,
                        found);
    return found;
  }

  std::string pods_;
};

TEST_F(PodDirectoriesTest, WhatNobodyKnowsIsToldAndWithRepairRemoved) {
  const auto known = [] { return std::set<PodUid>{PodUid("live")}; };
  const auto told = Audit(known, false);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].object, pods_ + "/lost");
  EXPECT_TRUE(Exists("lost"));
  EXPECT_EQ(Audit(known).size(), 1u);
  EXPECT_FALSE(Exists("lost"));
  EXPECT_TRUE(Exists("live"));
}

// It once lost its record and its volumes.
TEST_F(PodDirectoriesTest, APodThatIsAppliedMeanwhileKeepsItsDirectory) {
  const auto known = [this] {
    Make("late");  // since the list of the living was made
    return std::set<PodUid>{PodUid("live")};
  };
  EXPECT_EQ(Audit(known).size(), 1u);
  EXPECT_TRUE(Exists("late"));
}

TEST_F(PodDirectoriesTest, APodThatIsBackWithItsUidKeepsItsDirectory) {
  int asked = 0;
  const auto known = [&asked] {
    return ++asked == 1 ? std::set<PodUid>{} : std::set<PodUid>{PodUid("lost"), PodUid("live")};
  };
  EXPECT_TRUE(Audit(known).empty());
  EXPECT_TRUE(Exists("lost"));
}

}  // namespace
}  // namespace holdfast::agent
