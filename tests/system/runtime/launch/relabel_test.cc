// SPDX-License-Identifier: Apache-2.0
// Labels of volumes' files. A kernel without SELinux keeps them as it keeps any attribute.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "holdfast/sys/files.h"
#include "runtime/gather/selinux.h"
#include "tests/support/killed_process.h"

namespace holdfast::runtime {
namespace {

namespace fs = std::filesystem;

constexpr char kMine[] = "system_u:object_r:container_file_t:s0:c1,c2";
constexpr char kOthers[] = "system_u:object_r:container_file_t:s0:c3,c4";

class RelabelTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (::geteuid() != 0) return;
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: labels are attributes of the system";
    char pattern[] = "/tmp/holdfast-relabel-XXXXXX";
    path_ = ::mkdtemp(pattern);
    ASSERT_EQ(::mount("tmpfs", path_.c_str(), "tmpfs", 0, ""), 0);
    fs::create_directories(Path("volume/a/b"));
    std::ofstream(Path("volume/a/b/file")) << "x";
    std::ofstream(Path("canary")) << "the node's";
    fs::create_symlink(Path("canary"), Path("volume/a/link"));
    ASSERT_EQ(::mkfifo(Path("volume/fifo").c_str(), 0600), 0);
    fs::create_directories(Path("volume/mounted"));
    fs::create_directories(Path("node/sub"));
    none_ = LabelOf("canary");
    ASSERT_EQ(
        ::mount(Path("node").c_str(), Path("volume/mounted").c_str(), nullptr, MS_BIND, nullptr),
        0);
  }
  void TearDown() override {
    if (path_.empty()) return;
    EXPECT_EQ(::umount2(path_.c_str(), MNT_DETACH), 0);
    EXPECT_EQ(::rmdir(path_.c_str()), 0);
  }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  std::string LabelOf(const std::string& name) const {
    char label[256] = {};
    const ssize_t size =
        ::lgetxattr(Path(name).c_str(), "security.selinux", label, sizeof label - 1);
    return size < 0 ? "" : label;
  }
  model::MountSpec Mount(const std::string& source) const {
    model::MountSpec mount;
    mount.source = Path(source);
    mount.source_root = path_;
    return mount;
  }

  std::string path_;
  std::string none_;  // of a file that nobody labelled: the policy's, where there is one
};

TEST_F(RelabelTest, EverythingOfTheVolumeAndNothingElse) {
  ASSERT_TRUE(RelabelVolume(Mount("volume"), ""));
  EXPECT_EQ(LabelOf("volume"), none_) << "no label, nothing to do";
  const auto done = RelabelVolume(Mount("volume"), kMine);
  ASSERT_TRUE(done) << done.error().message();
  for (const char* name :
       {"volume", "volume/a", "volume/a/b", "volume/a/b/file", "volume/a/link", "volume/fifo"}) {
    EXPECT_EQ(LabelOf(name), kMine) << name;
  }
  for (const char* name : {"canary", "node", "node/sub", "."})
    EXPECT_EQ(LabelOf(name), none_) << name;
}

// The top is labelled last, so its label says that all of it is done; and what a pod writes later has its label anyway.
TEST_F(RelabelTest, ATopThatHasTheLabelIsAllThatIsLookedAt) {
  ASSERT_TRUE(RelabelVolume(Mount("volume"), kMine));
  ASSERT_EQ(::lsetxattr(Path("volume/a").c_str(), "security.selinux", kOthers, sizeof kOthers, 0),
            0);
  ASSERT_TRUE(RelabelVolume(Mount("volume"), kMine));
  EXPECT_EQ(LabelOf("volume/a"), kOthers);
  ASSERT_TRUE(RelabelVolume(Mount("volume"), kOthers));
  EXPECT_EQ(LabelOf("volume/a/b/file"), kOthers) << "of another pod all is labelled anew";
}

TEST_F(RelabelTest, NoLinkIsFollowedToTheVolume) {
  fs::create_directory_symlink(Path("node"), Path("volume/a/b/out"));
  EXPECT_FALSE(RelabelVolume(Mount("volume/a/b/out/sub"), kMine));
  EXPECT_FALSE(RelabelVolume(Mount("volume/a/b/out"), kMine));
  EXPECT_EQ(LabelOf("node/sub"), none_);
  EXPECT_EQ(LabelOf("node"), none_);
}

TEST_F(RelabelTest, OneFileIsAVolumeToo) {
  const auto file = sys::OpenAt(AT_FDCWD, Path("volume/a/b/file"), O_PATH);
  ASSERT_TRUE(file);
  ASSERT_TRUE(Relabel(file->get(), kMine));
  EXPECT_EQ(LabelOf("volume/a/b/file"), kMine);
  EXPECT_EQ(LabelOf("volume/a/b"), none_);
}

// Whoever changes the tree meanwhile gets a walk that finds less or gives up, never one outside: here a directory and a link
// to the node change places all the time, and a deep branch moves in and out of another.
TEST_F(RelabelTest, WhoChangesTheTreeMeanwhileLeadsNobodyOut) {
  std::string deep = "volume/a/deep";
  for (int i = 0; i < 40; ++i) deep += "/d";  // deeper than there are directories open
  fs::create_directories(Path(deep));
  fs::create_directories(Path("volume/swap"));
  fs::create_directory_symlink(Path("node"), Path("volume/link"));
  std::atomic<bool> over = false;
  std::thread container([&] {
    while (!over) {
      ::renameat2(AT_FDCWD, Path("volume/swap").c_str(), AT_FDCWD, Path("volume/link").c_str(),
                  RENAME_EXCHANGE);
      ::rename(Path("volume/a/deep").c_str(), Path("volume/deep").c_str());
      ::rename(Path("volume/deep").c_str(), Path("volume/a/deep").c_str());
    }
  });
  int done = 0;
  for (int i = 0; i < 100; ++i)
    done += RelabelVolume(Mount("volume"), i % 2 == 0 ? kMine : kOthers) ? 1 : 0;
  over = true;
  container.join();
  EXPECT_GT(done, 0);
  for (const char* name : {"canary", "node", "node/sub", "."})
    EXPECT_EQ(LabelOf(name), none_) << name;
}

// No test: the process that WhatAKillCutShortIsDoneByTheNextStart begins and kills.
TEST(RelabelDriver, DISABLED_Once) {
  model::MountSpec mount;
  mount.source = std::getenv("RELABEL_SOURCE");
  ASSERT_TRUE(RelabelVolume(mount, kMine));
}

// The top does not say yet that all of it is done, so the next start does the rest.
TEST_F(RelabelTest, WhatAKillCutShortIsDoneByTheNextStart) {
  fs::create_directory(Path("pauses"));
  const pid_t agent = test_support::StartDriver(
      "RelabelDriver.DISABLED_Once",
      {"RELABEL_SOURCE=" + Path("volume"), "HOLDFAST_PAUSE_DIR=" + Path("pauses"),
       "HOLDFAST_PAUSE_AT=gather.volume_labelled_below"});
  const bool stopped = test_support::WaitForStop(agent);
  test_support::Kill(agent);
  ASSERT_TRUE(stopped) << "the pause point was not reached";
  EXPECT_EQ(LabelOf("volume/a/b/file"), kMine);
  EXPECT_EQ(LabelOf("volume"), none_);
  ASSERT_EQ(::lsetxattr(Path("volume/a").c_str(), "security.selinux", kOthers, sizeof kOthers, 0),
            0);
  ASSERT_TRUE(RelabelVolume(Mount("volume"), kMine));
  EXPECT_EQ(LabelOf("volume/a"), kMine) << "what was not done yet";
  EXPECT_EQ(LabelOf("volume"), kMine);
}

// As proc, or one that is mounted with a label for all.
TEST_F(RelabelTest, AFileSystemWithoutLabelsStaysAsItIs) {
  const auto proc = sys::OpenAt(AT_FDCWD, "/proc/self/attr", O_PATH | O_DIRECTORY);
  ASSERT_TRUE(proc);
  const auto done = Relabel(proc->get(), kMine);
  EXPECT_TRUE(done) << done.error().message();
}

}  // namespace
}  // namespace holdfast::runtime
