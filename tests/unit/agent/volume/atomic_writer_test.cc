// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/atomic_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/volume/written_volumes.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "tests/support/own_mounts.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::MatchesRegex;

const bool kOwnMounts = test::EnterOwnMountNamespace();

class AtomicWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "holdfast-writer-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    parent_ = *sys::OpenDir(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  static VolumeFile File(const std::string& text, mode_t mode = 0644) {
    return {std::make_shared<const std::string>(text), mode, {}};
  }
  // "" or why not.
  std::string Write(const VolumeContent& content) {
    const auto written = WriteAtomically(parent_.get(), "v", content);
    return written ? "" : written.error().message();
  }
  std::string Path(const std::string& name) const { return dir_ + "/v/" + name; }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name));
    std::ostringstream text;
    text << file.rdbuf();
    return file ? text.str() : "none";
  }
  struct stat Stat(const std::string& name) const {
    struct stat st{};
    EXPECT_EQ(::lstat(Path(name).c_str(), &st), 0) << name;
    return st;
  }
  mode_t ModeOf(const std::string& name) const { return Stat(name).st_mode & 07777; }
  std::string Data() const { return fs::read_symlink(Path("..data")); }
  std::vector<std::string> Names() const { return *sys::ListDirAt(AT_FDCWD, dir_ + "/v"); }

  std::string dir_;
  DirFd parent_;
};

TEST_F(AtomicWriterTest, FilesLieBehindOneLink) {
  const mode_t old = ::umask(0077);
  const std::string failure = Write(
      {{{"key", File("one")}, {"dir/sub/deep", File("two", 0400)}, {"dir//x", File("")}}, {}});
  ::umask(old);
  ASSERT_EQ(failure, "");
  EXPECT_THAT(Data(), MatchesRegex("\\.\\.20[0-9_]+\\.[0-9]+"));
  EXPECT_THAT(Names(), ElementsAre(Data(), "..data", "dir", "key"));
  EXPECT_EQ(fs::read_symlink(Path("key")), "..data/key");
  EXPECT_EQ(fs::read_symlink(Path("dir")), "..data/dir");
  EXPECT_EQ(Read("key"), "one");
  EXPECT_EQ(Read("dir/sub/deep"), "two");
  EXPECT_EQ(Read("dir/x"), "");
  EXPECT_EQ(ModeOf(""), 0777u);
  EXPECT_EQ(ModeOf(Data()), 0755u);
  EXPECT_EQ(ModeOf("..data/dir/sub"), 0755u);
  EXPECT_EQ(ModeOf("..data/key"), 0644u);
  EXPECT_EQ(ModeOf("..data/dir/sub/deep"), 0400u);
}

TEST_F(AtomicWriterTest, WhatIsThereAlreadyIsNotWrittenAgain) {
  const VolumeContent content{{{"a", File("1")}, {"d/b", File("2", 0600)}}, {}};
  ASSERT_EQ(Write(content), "");
  const std::string first = Data();
  ASSERT_EQ(Write(content), "");
  EXPECT_EQ(Data(), first);
  const VolumeContent others[] = {
      {{{"a", File("2")}, {"d/b", File("2", 0600)}}, {}},
      {{{"a", File("1")}, {"d/b", File("2", 0640)}}, {}},
      {{{"a", File("1")}}, {}},
      {{{"a", File("1")}, {"d/b", File("2", 0600)}, {"d/c", File("")}}, {}},
      {{{"a", File("11")}, {"d/b", File("2", 0600)}}, {}},
      {{{"a", File("")}, {"d/b", File("2", 0600)}}, {}},
  };
  for (const auto& other : others) {
    const std::string before = Data();
    ASSERT_EQ(Write(other), "");
    EXPECT_NE(Data(), before);
    EXPECT_EQ(Read("a"), *other.files.at("a").bytes);
  }
}

TEST_F(AtomicWriterTest, WhatIsNotWantedAnyMoreGoes) {
  ASSERT_EQ(Write({{{"a", File("1")}, {"b", File("2")}, {"c/d", File("3")}}, {}}), "");
  const std::string first = Data();
  const int open = ::open(Path("b").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(Write({{{"b", File("new")}}, {}}), "");
  EXPECT_THAT(Names(), ElementsAre(Data(), "..data", "b"));
  EXPECT_NE(Data(), first);
  char old = 0;
  EXPECT_EQ(::read(open, &old, 1), 1);
  EXPECT_EQ(old, '2') << "who has it open goes on with it";
  ::close(open);
  ASSERT_EQ(Write({}), "");
  EXPECT_THAT(Names(), ElementsAre(Data(), "..data"));
}

TEST_F(AtomicWriterTest, AFileMayBecomeADirectory) {
  ASSERT_EQ(Write({{{"a", File("1")}}, {}}), "");
  ASSERT_EQ(Write({{{"a/b", File("2")}}, {}}), "");
  EXPECT_EQ(Read("a/b"), "2");
}

TEST_F(AtomicWriterTest, AGroupMayReadEverything) {
  const gid_t group = ::getegid();
  ASSERT_EQ(Write({{{"d/a", File("1", 0600)}, {"b", File("2", 0400)}}, group}), "");
  EXPECT_EQ(ModeOf(""), 02777u);
  EXPECT_EQ(ModeOf(Data()), 02755u);
  EXPECT_EQ(ModeOf("..data/d"), 02755u);
  EXPECT_EQ(ModeOf("..data/d/a"), 0640u);
  EXPECT_EQ(ModeOf("..data/b"), 0440u);
  const std::string before = Data();
  ASSERT_EQ(Write({{{"d/a", File("1", 0600)}, {"b", File("2", 0400)}}, group}), "");
  EXPECT_EQ(Data(), before);
}

TEST_F(AtomicWriterTest, AFileMayBelongToAUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs the right to give files away";
  VolumeFile file = File("token", 0600);
  file.owner = 12345;
  const auto written = WriteAtomically(parent_.get(), "v", {{{"token", file}}, 54321});
  if (!written && written.error().sys_errno() == EINVAL) GTEST_SKIP() << "no such user here";
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(Stat("..data/token").st_uid, 12345u);
  EXPECT_EQ(Stat("..data/token").st_gid, 54321u);
  EXPECT_EQ(Stat(Data()).st_gid, 54321u);
  EXPECT_EQ(Stat("token").st_gid, 54321u) << "the link itself";
  EXPECT_EQ(ModeOf("..data/token"), 0640u);
  const std::string before = Data();
  ASSERT_EQ(Write({{{"token", file}}, 54321}), "");
  EXPECT_EQ(Data(), before);
}

TEST_F(AtomicWriterTest, PathsStayInTheVolume) {
  const std::pair<std::string, std::string> rows[] = {
      {"", "invalid path: must not be empty: \"\""},
      {"/a", "invalid path: must be relative path: /a"},
      {"a/../b", "invalid path: must not contain '..': a/../b"},
      {"..", "invalid path: must not contain '..': .."},
      {"..data", "invalid path: must not start with '..': ..data"},
      {"./..x/a", "invalid path: must not start with '..': ./..x/a"},
      {std::string(256, 'x'),
       "invalid path: filenames must be less than or equal to 255 characters"},
      {"a/" + std::string(4095, '/'),
       "invalid path: must be less than or equal to 4096 characters"},
      {"./", "invalid path: must name a file: ./"},
  };
  ASSERT_EQ(Write({{{"kept", File("1")}}, {}}), "");
  for (const auto& [path, why] : rows) {
    EXPECT_EQ(Write({{{path, File("x")}}, {}}), why) << path;
  }
  EXPECT_EQ(Write({{{"a", File("x")}, {"a/b", File("y")}}, {}}),
            "invalid path: is a file and a directory: a");
  EXPECT_EQ(Write({{{"..a/x", File("x")}}, {}}), "invalid path: must not start with '..': ..a/x");
  EXPECT_TRUE(CheckVolumePath("a/..b")) << "not at the front";
  EXPECT_EQ(Read("kept"), "1") << "nothing has changed";
}

// A privileged container may have been there.
TEST_F(AtomicWriterTest, LinksThatSomebodyLeftAreNotFollowed) {
  ASSERT_EQ(Write({{{"key", File("1")}}, {}}), "");
  const std::string outside = dir_ + "/outside";
  fs::create_directory(outside);
  std::ofstream(outside + "/key") << "1";
  fs::remove(Path("..data"));
  fs::create_symlink("../outside", Path("..data"));
  fs::create_symlink(outside, Path("..data_tmp"));
  fs::remove(Path("key"));
  fs::create_directory(Path("key"));
  fs::create_symlink(outside, Path("stray"));
  ASSERT_EQ(Write({{{"key", File("1")}}, {}}), "");
  EXPECT_THAT(Names(), ElementsAre(Data(), "..data", "key"));
  EXPECT_EQ(Read("key"), "1");
  EXPECT_TRUE(fs::exists(outside + "/key"));
  fs::remove_all(dir_ + "/v");
  fs::create_symlink(outside, dir_ + "/v");
  EXPECT_NE(Write({{{"key", File("2")}}, {}}), "") << "the volume itself is no link";
  EXPECT_TRUE(fs::exists(outside + "/key"));
}

TEST_F(AtomicWriterTest, AFailureLeavesTheOldContent) {
  if (!kOwnMounts) GTEST_SKIP() << "the kernel gives no mount namespace";
  fs::create_directory(Path("").substr(0, Path("").size() - 1));
  ASSERT_EQ(::mount("tmpfs", Path("").c_str(), "tmpfs", 0, "size=64k"), 0);
  ASSERT_EQ(Write({{{"a", File("old")}}, {}}), "");
  const std::string before = Data();
  EXPECT_EQ(Write({{{"a", File("new")}, {"b", File(std::string(100'000, 'x'))}}, {}}),
            "write b: write: no space left on device");
  EXPECT_EQ(Data(), before);
  EXPECT_EQ(Read("a"), "old");
  EXPECT_THAT(Names(), ElementsAre(before, "..data", "a")) << "nor does anything stay behind";
  EXPECT_EQ(Write({{{"a", File("new")}}, {}}), "");
  EXPECT_EQ(Read("a"), "new");
  ::umount2(Path("").c_str(), MNT_DETACH);
}

class WrittenVolumesTest : public AtomicWriterTest {
 protected:
  void SetUp() override {
    AtomicWriterTest::SetUp();
    instance_.run_dir = dir_ + "/run";
    instance_.root_dir = dir_ + "/root";
  }
  PodPaths Paths(const std::string& uid) const { return {instance_, PodUid(uid), "ns", "web"}; }

  model::Instance instance_;
};

TEST_F(WrittenVolumesTest, OneFailureHoldsNoneOfTheOthersUp) {
  const auto written = WriteVolumes(
      Paths("u1"), {{"a", {{{"/", File("")}}, {}}}, {"b", {{{"key", File("1")}}, {}}}});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message(),
            "MountVolume.SetUp failed for volume \"a\" : invalid path: must be relative path: /");
  EXPECT_TRUE(fs::exists(Paths("u1").WrittenVolume("b") + "/key"));
  ASSERT_TRUE(WriteVolumes(Paths("u2"), {{"b", {{{"key", File("1")}}, {}}}}));
  ASSERT_TRUE(ReleaseWrittenVolumes(Paths("u1").WrittenVolumes()));
  EXPECT_FALSE(fs::exists(Paths("u1").WrittenVolumes()));
  EXPECT_TRUE(fs::exists(Paths("u2").WrittenVolume("b") + "/key"));
  EXPECT_TRUE(ReleaseWrittenVolumes(Paths("u1").WrittenVolumes())) << "again";
  ASSERT_TRUE(WriteVolumes(Paths("u3"), {}));
  EXPECT_FALSE(fs::exists(Paths("u3").WrittenVolumes())) << "nothing to write";
}

TEST_F(WrittenVolumesTest, TheyLieOnATmpfsOfTheirOwn) {
  if (!kOwnMounts) GTEST_SKIP() << "the kernel gives no mount namespace";
  for (int i = 0; i < 2; ++i) {
    const auto opened = OpenWrittenVolumes(instance_);
    ASSERT_TRUE(opened) << opened.error().message();
  }
  std::ifstream mounts("/proc/self/mountinfo");
  std::vector<std::string> found;
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(instance_.WrittenVolumesDir()) != std::string::npos) found.push_back(line);
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0], testing::HasSubstr("rw,nosuid,nodev"));
  EXPECT_THAT(found[0], testing::Not(testing::HasSubstr("noexec")));
  EXPECT_THAT(found[0], testing::Not(testing::HasSubstr("shared:")));
  EXPECT_THAT(found[0], testing::HasSubstr("- tmpfs holdfast-volumes "));
  ASSERT_TRUE(WriteVolumes(Paths("u1"), {{"b", {{{"key", File("1")}}, {}}}}));
  ASSERT_TRUE(OpenWrittenVolumes(instance_));
  EXPECT_TRUE(fs::exists(Paths("u1").WrittenVolume("b") + "/key"));
  ASSERT_TRUE(RemoveWrittenVolumes(instance_));
  EXPECT_FALSE(fs::exists(instance_.WrittenVolumesDir()));
  EXPECT_TRUE(RemoveWrittenVolumes(instance_)) << "again";
}

}  // namespace
}  // namespace holdfast::agent
