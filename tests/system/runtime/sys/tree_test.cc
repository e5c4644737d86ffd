// SPDX-License-Identifier: Apache-2.0
// Trees with what takes privilege to make: mounts, file flags, other owners, a million names.
#include "holdfast/sys/tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "tests/support/hostile_tree.h"

namespace holdfast::sys {
namespace {

namespace fs = std::filesystem;
using test::NestDirectories;
using test::Troublemaker;
using test::WithLittleRoom;

class PrivilegedTreeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (::geteuid() != 0) return;
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: mounts and file flags";
    char pattern[] = "/tmp/holdfast-tree-XXXXXX";
    path_ = ::mkdtemp(pattern);
    ASSERT_EQ(::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1g,nr_inodes=0"), 0);
    auto dir = OpenDir(path_);
    ASSERT_TRUE(dir);
    dir_ = std::move(*dir);
    fs::create_directories(Path("canary/sub"));
    std::ofstream(Path("canary/file")) << "untouched";
  }
  void TearDown() override {
    if (path_.empty()) return;
    EXPECT_TRUE(fs::exists(Path("canary/sub")));
    EXPECT_TRUE(fs::exists(Path("canary/file")));
    dir_.Reset();
    EXPECT_EQ(::umount2(path_.c_str(), MNT_DETACH), 0);
    EXPECT_EQ(::rmdir(path_.c_str()), 0);
  }

  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  Result<void> Remove(const std::string& name) { return RemoveTreeAt(dir_.get(), name, {}); }
  void SetFlag(const std::string& name, int flag) const {
    const UniqueFd fd(::open(Path(name).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::ioctl(fd.get(), FS_IOC_SETFLAGS, &flag), 0) << name;
  }

  std::string path_;
  DirFd dir_;
};

TEST_F(PrivilegedTreeTest, ABindMountOfTheSameFileSystemIsNotEntered) {
  fs::create_directories(Path("tree/a/b/mounted"));
  fs::create_directories(Path("tree/z/y"));
  std::ofstream(Path("tree/a/mounted-file")) << "below";
  ASSERT_EQ(
      ::mount(Path("canary").c_str(), Path("tree/a/b/mounted").c_str(), nullptr, MS_BIND, nullptr),
      0);
  ASSERT_EQ(::mount(Path("canary/file").c_str(), Path("tree/a/mounted-file").c_str(), nullptr,
                    MS_BIND, nullptr),
            0);
  const auto removed = Remove("tree");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code(), Code::kConflict) << removed.error().message();
  EXPECT_FALSE(fs::exists(Path("tree/z"))) << "what can go goes";

  auto top = OpenDirAt(dir_.get(), "tree");
  std::string seen;
  ASSERT_TRUE(VisitTree(top->get(), [&](int, const struct stat&, const std::string& name) {
    seen += name + " ";
    return Result<void>();
  }));
  EXPECT_EQ(seen, "a b ");

  // Set aside with its mounts, which go on; removed once they are gone.
  const auto told = RemoveOrSetAside(dir_.get(), "tree", Path("aside"));
  ASSERT_TRUE(told) << told.error().message();
  EXPECT_NE(told->find("something is mounted on it"), std::string::npos) << *told;
  const std::string moved = ListAside(Path("aside")).at(0).path;
  EXPECT_TRUE(fs::exists(moved + "/a/b/mounted/file"));
  EXPECT_NE(RetryAside(Path("aside"), {}).at(0).reason, "");
  ASSERT_EQ(::umount((moved + "/a/b/mounted").c_str()), 0);
  ASSERT_EQ(::umount((moved + "/a/mounted-file").c_str()), 0);
  EXPECT_EQ(RetryAside(Path("aside"), {}).at(0).reason, "");
  EXPECT_FALSE(fs::exists(Path("aside")));
}

TEST_F(PrivilegedTreeTest, ImmutableAndAppendOnlyFlagsDoNotHoldItUp) {
  ASSERT_TRUE(NestDirectories(Path("tree"), 40));
  fs::create_directories(Path("tree/dir/sub"));
  std::ofstream(Path("tree/dir/file")) << "x";
  std::ofstream(Path("tree/log")) << "x";
  SetFlag("tree/dir/file", FS_IMMUTABLE_FL);
  SetFlag("tree/log", FS_APPEND_FL);
  std::string deep = "tree";
  for (int i = 0; i < 30; ++i) deep += "/d";
  SetFlag(deep, FS_IMMUTABLE_FL);
  SetFlag("tree/dir", FS_APPEND_FL);
  SetFlag("tree", FS_IMMUTABLE_FL);
  const auto removed = Remove("tree");
  EXPECT_TRUE(removed) << removed.error().message();
  EXPECT_FALSE(fs::exists(Path("tree")));
}

TEST_F(PrivilegedTreeTest, AMillionNamesGoWhileMoreAreMade) {
  // Hard links: a million inodes would only cost memory.
  constexpr int kDirectories = 1000;
  constexpr int kNames = 1000;
  fs::create_directory(Path("tree"));
  std::ofstream(Path("tree/file")) << "x";
  for (int d = 0; d < kDirectories; ++d) {
    const std::string sub = Path(StrCat("tree/", d));
    ASSERT_EQ(::mkdir(sub.c_str(), 0), 0);
    const UniqueFd fd(::open(sub.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < kNames; ++i) {
      ASSERT_EQ(::linkat(AT_FDCWD, Path("tree/file").c_str(), fd.get(), StrCat(i).c_str(), 0), 0);
    }
  }
  {
    const Troublemaker other([&](unsigned round) {
      const std::string a = Path(StrCat("tree/", round % kDirectories));
      const std::string b = Path(StrCat("tree/", (round * 31 + 7) % kDirectories));
      ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
      ::mkdir(StrCat(a, "/new").c_str(), 0700);
      (void)!::symlink(Path("canary").c_str(), StrCat(b, "/link").c_str());
      ::usleep(100);
    });
    (void)WithLittleRoom([&] {
      RemoveLimits limits;
      limits.until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      return RemoveTreeAt(dir_.get(), "tree", limits).has_value();
    });
  }
  EXPECT_TRUE(WithLittleRoom([&] { return Remove("tree").has_value(); }));
  EXPECT_FALSE(fs::exists(Path("tree")));
}

}  // namespace
}  // namespace holdfast::sys
