// SPDX-License-Identifier: Apache-2.0
#include "runtime/gather/layered_root.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace holdfast::runtime {
namespace {

namespace fs = std::filesystem;

class LayeredRootTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "holdfast-layers-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
    for (const char* layer : {"0", "1", "2"}) fs::create_directories(top_ / layer / "etc");
  }
  void TearDown() override { fs::remove_all(top_); }

  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((top_ / name).parent_path());
    std::ofstream(top_ / name) << text;
  }
  Result<std::string> Read(const std::string& path, size_t limit = 1000) {
    auto root = LayeredRoot::Open({top_ / "0", top_ / "1", top_ / "2"});
    EXPECT_TRUE(root.has_value());
    return root->ReadFile(path, limit);
  }

  fs::path top_;
};

TEST_F(LayeredRootTest, TheTopmostLayerThatHasTheFileWins) {
  Write("0/etc/passwd", "lowest");
  EXPECT_EQ(*Read("etc/passwd"), "lowest");
  Write("1/etc/passwd", "middle");
  EXPECT_EQ(*Read("/etc/passwd"), "middle");
  Write("2/etc/group", "other file");
  EXPECT_EQ(*Read("/etc/./passwd"), "middle");
  EXPECT_EQ(Read("etc/shadow").error().code(), Code::kNotFound);
}

TEST_F(LayeredRootTest, WhiteoutsHideWhatIsBelow) {
  Write("0/etc/passwd", "lowest");
  if (::mknod((top_ / "1/etc/passwd").c_str(), S_IFCHR, ::makedev(0, 0)) != 0) {
    GTEST_SKIP() << "needs a kernel that lets us make whiteouts";
  }
  EXPECT_EQ(Read("etc/passwd").error().code(), Code::kNotFound);
  Write("2/etc/passwd", "again");
  EXPECT_EQ(*Read("etc/passwd"), "again");
}

TEST_F(LayeredRootTest, AnOpaqueDirectoryHidesWhatIsBelow) {
  Write("0/etc/passwd", "lowest");
  if (::setxattr((top_ / "1/etc").c_str(), "user.overlay.opaque", "y", 1, 0) != 0) {
    GTEST_SKIP() << "the file system has no user attributes";
  }
  EXPECT_EQ(Read("etc/passwd").error().code(), Code::kNotFound);
}

TEST_F(LayeredRootTest, SymlinksStayInTheImage) {
  Write("0/usr/etc/passwd", "real");
  fs::create_symlink("/usr/etc/passwd", top_ / "1/etc/passwd");
  EXPECT_EQ(*Read("etc/passwd"), "real");
  fs::remove(top_ / "1/etc/passwd");
  fs::create_symlink("../../../../../usr/etc/passwd", top_ / "2/etc/passwd");
  EXPECT_EQ(*Read("etc/passwd"), "real");
  // A file of the host under a name that the image does not have.
  fs::create_symlink(top_ / "0/usr/etc/passwd", top_ / "2/etc/group");
  EXPECT_EQ(Read("etc/group").error().code(), Code::kNotFound);
}

TEST_F(LayeredRootTest, ADirectoryLinkLeadsThroughAllLayers) {
  Write("0/real/passwd", "deep");
  fs::create_symlink("/real", top_ / "2/link");
  EXPECT_EQ(*Read("link/passwd"), "deep");
}

// PR-04
TEST_F(LayeredRootTest, NothingButASmallRegularFileIsRead) {
  fs::create_symlink("b", top_ / "2/a");
  fs::create_symlink("a", top_ / "2/b");
  EXPECT_EQ(Read("a").error().code(), Code::kInvalidArgument);
  ASSERT_EQ(::mkfifo((top_ / "2/fifo").c_str(), 0600), 0);
  EXPECT_EQ(Read("fifo").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Read("etc").error().code(), Code::kInvalidArgument);
  EXPECT_FALSE(Read("fifo/x").has_value());
  Write("2/sparse", "");
  fs::resize_file(top_ / "2/sparse", uint64_t{4} << 30);
  EXPECT_EQ(Read("sparse").error().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace holdfast::runtime
