// SPDX-License-Identifier: Apache-2.0
// A directory to unpack into, beside a canary that no archive may touch.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "holdfast/sys/files.h"
#include "runtime/image/unpack/layer_unpacker.h"
#include "tests/support/tar_builder.h"

namespace holdfast::runtime::unpack {

class LayerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: a layer holds files of every owner";
    char pattern[] = "/tmp/holdfast-layer-XXXXXX";
    base_ = ::mkdtemp(pattern);
    ASSERT_EQ(::chmod(base_.c_str(), 0755), 0);
    std::filesystem::create_directory(base_ + "/root");
    std::filesystem::create_directory(base_ + "/canary");
    std::ofstream(base_ + "/canary/file") << "untouched";
    ASSERT_EQ(::chmod((base_ + "/canary/file").c_str(), 0640), 0);
  }
  void TearDown() override {
    if (!base_.empty()) std::filesystem::remove_all(base_);
  }

  std::string Root(const std::string& path = "") const { return base_ + "/root/" + path; }

  Result<LayerReport> Unpack(const std::string& tar, const UnpackLimits& limits = {}) {
    auto fd = sys::SealedMemfd("layer", tar);
    if (!fd) return std::move(fd.error());
    auto root = sys::OpenDir(base_ + "/root");
    if (!root) return std::move(root.error());
    return UnpackLayer(fd->get(), std::move(*root), limits);
  }
  Result<LayerReport> Unpack(const std::vector<test::TarMember>& members) {
    return Unpack(test::BuildTar(members));
  }

  struct stat Stat(const std::string& path) const {
    struct stat st{};
    EXPECT_EQ(::lstat(Root(path).c_str(), &st), 0) << path;
    return st;
  }
  bool Exists(const std::string& path) const {
    struct stat st{};
    return ::lstat(Root(path).c_str(), &st) == 0;
  }
  std::string Content(const std::string& path) const {
    std::ifstream file(Root(path));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // The canary and the directory around it are as they were.
  void ExpectCanaryUntouched() const {
    struct stat st{};
    ASSERT_EQ(::lstat((base_ + "/canary/file").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777u, 0640u);
    EXPECT_EQ(st.st_nlink, 1u);
    EXPECT_EQ(st.st_uid, 0u);
    std::ifstream file(base_ + "/canary/file");
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(text.str(), "untouched");
    size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(base_)) ++entries;
    EXPECT_EQ(entries, 2u);
    entries = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(base_ + "/canary"))
      ++entries;
    EXPECT_EQ(entries, 1u);
  }

  std::string base_;
};

}  // namespace holdfast::runtime::unpack
