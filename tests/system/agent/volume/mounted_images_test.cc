// SPDX-License-Identifier: Apache-2.0
// An image as a volume, read back from the kernel.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "agent/volume/mount_point.h"
#include "agent/volume/mounted_images.h"
#include "tests/support/own_mounts.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;

const bool g_own_mounts = test::EnterOwnMountNamespace();

class MountedImagesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!g_own_mounts || ::geteuid() != 0) GTEST_SKIP() << "needs root, to mount";
    std::string pattern = testing::TempDir() + "holdfast-images-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
    volume_ = top_ + "/volumes/v";
  }
  void TearDown() override {
    if (top_.empty()) return;
    test::UnmountEntries(top_ + "/volumes");
    fs::remove_all(top_);
  }

  std::string Layer(const std::string& name) {
    fs::create_directories(top_ + "/" + name);
    return top_ + "/" + name;
  }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(volume_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string top_;
  std::string volume_;
};

TEST_F(MountedImagesTest, LayersAreMergedAndNothingCanBeWritten) {
  const std::string lower = Layer("lower");
  const std::string upper = Layer("upper");
  Write(lower + "/same", "old");
  Write(lower + "/gone", "old");
  Write(lower + "/kept", "kept");
  Write(upper + "/same", "new");
  ASSERT_EQ(::mknod((upper + "/gone").c_str(), S_IFCHR, ::makedev(0, 0)), 0);
  ASSERT_TRUE(MountImage(volume_, "sha256:1", {lower, upper}));
  EXPECT_EQ(Read("same"), "new");
  EXPECT_EQ(Read("kept"), "kept");
  EXPECT_FALSE(fs::exists(volume_ + "/gone"));
  EXPECT_EQ(::open((volume_ + "/same").c_str(), O_WRONLY | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EROFS);
  struct statvfs st{};
  ASSERT_EQ(::statvfs(volume_.c_str(), &st), 0);
  EXPECT_EQ(st.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV), ST_RDONLY | ST_NOSUID | ST_NODEV);
}

TEST_F(MountedImagesTest, OneLayerIsEnough) {
  const std::string only = Layer("only");
  Write(only + "/file", "text");
  ASSERT_TRUE(MountImage(volume_, "sha256:1", {only}));
  EXPECT_EQ(Read("file"), "text");
}

TEST_F(MountedImagesTest, WhatIsMountedStaysAndIsUnmountedOnce) {
  const std::string first = Layer("first");
  const std::string second = Layer("second");
  Write(first + "/file", "first");
  Write(second + "/file", "second");
  ASSERT_TRUE(MountImage(volume_, "sha256:1", {first}));
  ASSERT_TRUE(MountImage(volume_, "sha256:2", {second}));
  EXPECT_EQ(Read("file"), "first");
  EXPECT_TRUE(*IsMountedImage("sha256:1"));
  EXPECT_FALSE(*IsMountedImage("sha256:2")) << "what was mounted first stays";
  ASSERT_TRUE(UnmountIfMounted(volume_));
  EXPECT_FALSE(*IsMountedImage("sha256:1"));
  EXPECT_FALSE(*IsMountPoint(volume_)) << "one mount, not two";
  EXPECT_TRUE(UnmountIfMounted(volume_));
  EXPECT_TRUE(UnmountIfMounted(top_ + "/never"));
  EXPECT_EQ(Read("file"), "");
}

TEST_F(MountedImagesTest, ManyLayersFitAndTooManyAreToldOf) {
  std::vector<std::string> layers;
  for (int i = 0; i < 127; ++i) {
    layers.push_back(Layer("l" + std::to_string(i)));
    Write(layers.back() + "/" + std::to_string(i), "x");
  }
  ASSERT_TRUE(MountImage(volume_, "sha256:1", layers));
  EXPECT_TRUE(fs::exists(volume_ + "/0"));
  EXPECT_TRUE(fs::exists(volume_ + "/126"));
  while (layers.size() < 500) layers.push_back(layers.front());
  const auto refused = MountImage(top_ + "/volumes/w", "sha256:1", layers);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "mount overlay: 500 layers do not fit into the options of mount(2)");
}

}  // namespace
}  // namespace holdfast::agent
