// SPDX-License-Identifier: Apache-2.0
// Files that a container wrote, read by the node: none leads out of its volume, and nothing but a file is opened.
#include "agent/volume/volume_text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;

class VolumeTextTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "holdfast-volume-text-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    volume_ = dir_ + "/volume";
    fs::create_directories(volume_ + "/sub");
    std::ofstream(dir_ + "/secret") << "of the node";
    std::ofstream(volume_ + "/sub/file") << "of the pod";
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string Read(const std::string& path, size_t limit = 100) const {
    const auto text = ReadVolumeText(volume_, path, limit);
    return text ? *text : "refused";
  }

  std::string dir_, volume_;
};

TEST_F(VolumeTextTest, WhatLiesInTheVolume) {
  fs::create_symlink("sub/file", volume_ + "/link");
  fs::create_symlink("/sub", volume_ + "/from_its_root");
  EXPECT_EQ(Read("sub/file"), "of the pod");
  EXPECT_EQ(Read("link"), "of the pod");
  EXPECT_EQ(Read("from_its_root/file"), "of the pod");
  EXPECT_EQ(Read("none"), "refused");
  EXPECT_EQ(Read("sub/file", 3), "refused");
}

TEST_F(VolumeTextTest, NothingLeadsOut) {
  fs::create_symlink("../secret", volume_ + "/up");
  fs::create_symlink(dir_ + "/secret", volume_ + "/absolute");
  fs::create_symlink(dir_, volume_ + "/directory");
  fs::create_symlink("/proc/self/root" + dir_ + "/secret", volume_ + "/magic");
  for (const char* path : {"up", "absolute", "directory/secret", "magic", "../secret"}) {
    EXPECT_EQ(Read(path), "refused") << path;
  }
}

TEST_F(VolumeTextTest, NothingButAFileIsOpened) {
  ASSERT_EQ(::mkfifo((volume_ + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(Read("fifo"), "refused") << "and nobody waits for a writer";
  EXPECT_EQ(Read("sub"), "refused");
}

}  // namespace
}  // namespace holdfast::agent
