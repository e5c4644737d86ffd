// SPDX-License-Identifier: Apache-2.0
// A tree below which somebody else puts links, FIFOs and devices, also while it is being used.
#include "holdfast/sys/shared_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "holdfast/sys/files.h"

namespace holdfast::sys {
namespace {

namespace fs = std::filesystem;

class SharedTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-shared-tree-XXXXXX";
    top_ = ::mkdtemp(pattern);
    root_ = top_ + "/root";
    fs::create_directories(root_ + "/pod/app");
    fs::create_directories(top_ + "/canary");
    std::ofstream(root_ + "/pod/app/0.log") << "own\n";
    std::ofstream(top_ + "/canary/0.log") << "canary\n";
  }
  void TearDown() override { fs::remove_all(top_); }

  Code CodeOfOpening(const std::string& name, int flags = O_RDONLY) {
    const auto dir = OpenDirBelow(root_, "pod/app");
    EXPECT_TRUE(dir);
    const auto file = OpenPlainFileAt(dir->get(), name, flags);
    EXPECT_FALSE(file) << name;
    return file ? Code::kInternal : file.error().code();
  }

  std::string top_;
  std::string root_;
};

TEST_F(SharedTreeTest, OpensWhatIsThere) {
  const auto dir = OpenDirBelow(root_, "pod/app");
  ASSERT_TRUE(dir) << dir.error().message();
  const auto file = OpenPlainFileAt(dir->get(), "0.log", O_RDONLY);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(ReadFd(file->get(), 100).value(), "own\n");
  EXPECT_TRUE(IsPlainFileAt(dir->get(), "0.log", 4));
  EXPECT_FALSE(IsPlainFileAt(dir->get(), "0.log", 3));
  EXPECT_EQ(OpenDirBelow(root_, "pod/none").error().code(), Code::kNotFound);
}

TEST_F(SharedTreeTest, TheRootMayLeadThroughALink) {
  fs::create_directory_symlink(root_, top_ + "/link");
  EXPECT_TRUE(OpenDirBelow(top_ + "/link", "pod/app"));
  EXPECT_TRUE(MakeDirsBelow(top_ + "/link", "pod/new", 0755));
}

TEST_F(SharedTreeTest, NoPartBelowTheRootIsALink) {
  fs::create_directory_symlink(top_ + "/canary", root_ + "/pod/away");
  fs::create_directory_symlink("app", root_ + "/pod/near");
  fs::create_directory_symlink(top_, root_ + "/top");
  for (const char* path : {"pod/away", "pod/near", "top/canary", "pod/../../canary", "../canary"}) {
    const auto opened = OpenDirBelow(root_, path);
    EXPECT_TRUE(!opened && opened.error().code() == Code::kConflict) << path;
    EXPECT_FALSE(MakeDirsBelow(root_, std::string(path) + "/made", 0755)) << path;
  }
  EXPECT_FALSE(fs::exists(top_ + "/canary/made"));
}

TEST_F(SharedTreeTest, OnlyAPlainFileWithOneNameIsOpened) {
  const std::string app = root_ + "/pod/app/";
  fs::create_symlink(top_ + "/canary/0.log", app + "link");
  fs::create_hard_link(top_ + "/canary/0.log", app + "hard");
  fs::create_directory(app + "dir");
  ASSERT_EQ(::mkfifo((app + "fifo").c_str(), 0600), 0);
  for (const char* name : {"link", "hard", "dir", "fifo", "../app/0.log"}) {
    EXPECT_EQ(CodeOfOpening(name), Code::kConflict) << name;
  }
  EXPECT_EQ(CodeOfOpening("fifo", O_WRONLY), Code::kConflict);
  EXPECT_EQ(CodeOfOpening("none"), Code::kNotFound);
}

TEST_F(SharedTreeTest, ADeviceIsNotOpened) {
  if (::geteuid() != 0) GTEST_SKIP() << "mknod needs root";
  const std::string path = root_ + "/pod/app/device";
  if (::mknod(path.c_str(), S_IFCHR | 0600, ::makedev(1, 3)) != 0) {
    GTEST_SKIP() << "no device can be made here";
  }
  EXPECT_EQ(CodeOfOpening("device"), Code::kConflict);
}

// A directory and a link to the canary trade places all the time, and so do a file and a link.
TEST_F(SharedTreeTest, NothingOfTheCanaryIsReachedWhileNamesAreSwapped) {
  const std::string pod = root_ + "/pod/";
  fs::create_directory_symlink(top_ + "/canary", pod + "evil");
  fs::create_symlink(top_ + "/canary/0.log", pod + "app/evil");
  std::atomic<bool> stop = false;
  const auto swap = [&stop](int dir, const char* a, const char* b) {
    while (!stop) ::renameat2(dir, a, dir, b, RENAME_EXCHANGE);
  };
  const DirFd outer = OpenDir(pod).value();
  const DirFd inner = OpenDir(pod + "app").value();
  std::thread directories(swap, outer.get(), "app", "evil");
  std::thread files(swap, inner.get(), "0.log", "evil");
  int opened = 0;
  int refused = 0;
  int seen = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto dir =
        i % 2 == 0 ? OpenDirBelow(root_, "pod/app") : MakeDirsBelow(root_, "pod/app", 0755);
    if (!dir) {
      ++refused;
      continue;
    }
    ++opened;
    const auto file = OpenPlainFileAt(dir->get(), "0.log", O_RDONLY);
    if (file && ReadFd(file->get(), 100).value() != "own\n") ++seen;
  }
  stop = true;
  directories.join();
  files.join();
  EXPECT_EQ(seen, 0);
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace holdfast::sys
