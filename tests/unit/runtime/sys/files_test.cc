// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"

namespace holdfast::sys {
namespace {

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-files-XXXXXX";
    path_ = ::mkdtemp(pattern);
    auto dir = OpenDir(path_);
    ASSERT_TRUE(dir) << dir.error().message();
    dir_ = std::move(*dir);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  std::string path_;
  DirFd dir_;
};

// Whoever watches the directory must not see somebody writing to a file that is whole.
TEST_F(FilesTest, WriteFileAtomicIsDoneWithTheFileBeforeItHasItsName) {
  const UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ASSERT_GE(::inotify_add_watch(watch.get(), path_.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO), 0);
  ASSERT_TRUE(WriteFileAtomicAt(dir_.get(), "record", "one", 0600));
  alignas(inotify_event) char buffer[4096];
  const ssize_t size = ::read(watch.get(), buffer, sizeof buffer);
  std::vector<std::pair<uint32_t, std::string>> seen;
  for (ssize_t at = 0; at < size;) {
    const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
    seen.emplace_back(event->mask, event->name);
    at += static_cast<ssize_t>(sizeof *event + event->len);
  }
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].first, uint32_t{IN_CLOSE_WRITE});
  EXPECT_TRUE(IsTemporaryName(seen[0].second)) << seen[0].second;
  EXPECT_EQ(seen[1], std::pair(uint32_t{IN_MOVED_TO}, std::string("record")));
}

TEST_F(FilesTest, WriteFileAtomicReplacesContentAndLeavesNoTemporaryFile) {
  ASSERT_TRUE(WriteFileAtomicAt(dir_.get(), "record", "one", 0600));
  ASSERT_TRUE(WriteFileAtomicAt(dir_.get(), "record", "two", 0640));
  auto text = ReadFileAt(dir_.get(), "record", 100);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "two");
  struct stat st{};
  ASSERT_EQ(::fstatat(dir_.get(), "record", &st, 0), 0);
  EXPECT_EQ(st.st_mode & 0777u, 0640u);
  EXPECT_EQ(ListDirAt(dir_.get(), "."), std::vector<std::string>{"record"});
}

TEST_F(FilesTest, RemovesWhatAKilledWriterLeftAndNothingElse) {
  const std::string living = StrCat(".held.", static_cast<int>(::getpid()), ".tmp");
  for (const std::string& name : {std::string(".record.4194303.tmp"), living, std::string(".other"),
                                  std::string(".a.b.tmp"), std::string("record.1.tmp")}) {
    ASSERT_TRUE(WriteFileAtomicAt(dir_.get(), name, "half", 0600));
  }
  ASSERT_TRUE(RemoveTemporariesAt(dir_.get(), ".", Writer::kAny, "other"));
  EXPECT_EQ(ListDirAt(dir_.get(), ".")->size(), 5u);
  ASSERT_TRUE(RemoveTemporariesAt(dir_.get(), ".", Writer::kDead));
  EXPECT_EQ(ListDirAt(dir_.get(), "."),
            (std::vector<std::string>{".a.b.tmp", living, ".other", "record.1.tmp"}));
  ASSERT_TRUE(RemoveTemporariesAt(dir_.get(), "."));
  EXPECT_EQ(ListDirAt(dir_.get(), "."),
            (std::vector<std::string>{".a.b.tmp", ".other", "record.1.tmp"}));
}

TEST_F(FilesTest, ReadFileRefusesMoreThanItsLimit) {
  ASSERT_TRUE(WriteFileAtomicAt(dir_.get(), "f", "12345", 0600));
  auto text = ReadFileAt(dir_.get(), "f", 4);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), Code::kResourceExhausted);
}

TEST_F(FilesTest, OpenInsideInRootKeepsAbsoluteSymlinksInside) {
  std::filesystem::create_directory(path_ + "/etc");
  std::ofstream(path_ + "/etc/passwd") << "inside";
  std::filesystem::create_symlink("/etc/passwd", path_ + "/link");
  auto fd = OpenInside(dir_.get(), "link", O_RDONLY, 0, Resolve::kInRoot);
  ASSERT_TRUE(fd) << fd.error().message();
  EXPECT_EQ(*ReadFd(fd->get(), 100), "inside");
}

TEST_F(FilesTest, OpenInsideBeneathRefusesToLeave) {
  auto fd = OpenInside(dir_.get(), "../..", O_PATH, 0, Resolve::kBeneath);
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().sys_errno(), EXDEV);
}

TEST_F(FilesTest, OpenInsideWithoutLinksRefusesThoseInsideToo) {
  std::filesystem::create_directory(path_ + "/etc");
  std::ofstream(path_ + "/etc/passwd") << "inside";
  std::filesystem::create_symlink("etc", path_ + "/link");
  EXPECT_TRUE(OpenInside(dir_.get(), "etc/passwd", O_RDONLY, 0, Resolve::kNoLinks));
  EXPECT_TRUE(OpenInside(dir_.get(), "link/passwd", O_RDONLY, 0, Resolve::kBeneath));
  const auto linked = OpenInside(dir_.get(), "link/passwd", O_RDONLY, 0, Resolve::kNoLinks);
  ASSERT_FALSE(linked);
  EXPECT_EQ(linked.error().sys_errno(), ELOOP);
  const auto above = OpenInside(dir_.get(), "..", O_PATH, 0, Resolve::kNoLinks);
  ASSERT_FALSE(above);
  EXPECT_EQ(above.error().sys_errno(), EXDEV);
}

TEST_F(FilesTest, MakeDirsInsideFollowsSymlinksOnlyWithinTheRoot) {
  std::filesystem::create_symlink("/", path_ + "/up");
  auto made = MakeDirsInside(dir_.get(), "/up/a/../../../b/c", 0755);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_TRUE(std::filesystem::is_directory(path_ + "/b/c"));
  EXPECT_FALSE(std::filesystem::exists("/b/c"));
}

TEST_F(FilesTest, MakeDirsInsideMakesWhatIsMissingAndLeavesTheRestAsItIs) {
  std::filesystem::create_directories(path_ + "/a/b");
  std::filesystem::permissions(path_ + "/a/b", std::filesystem::perms::owner_all);
  auto made = MakeDirsInside(dir_.get(), "a/./b//c/d", 0711);
  ASSERT_TRUE(made) << made.error().message();
  struct stat st{};
  ASSERT_EQ(::fstat(made->get(), &st), 0);
  EXPECT_TRUE(
      std::filesystem::equivalent(path_ + "/a/b/c/d", StrCat("/proc/self/fd/", made->get())));
  EXPECT_EQ(st.st_mode & 07777, 0711u);
  EXPECT_EQ(std::filesystem::status(path_ + "/a/b").permissions(),
            std::filesystem::perms::owner_all);
  auto again = MakeDirsInside(dir_.get(), "/a/b/c/d", 0755);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_TRUE(
      std::filesystem::equivalent(path_ + "/a/b/c/d", StrCat("/proc/self/fd/", again->get())));
  EXPECT_TRUE(MakeDirsInside(dir_.get(), "/", 0755)) << "the root itself";
}

TEST_F(FilesTest, MakeDirsInsideMakesNothingBehindADanglingLinkOrAFile) {
  std::filesystem::create_symlink("nowhere", path_ + "/dangling");
  std::ofstream(path_ + "/file") << "text";
  for (const char* path : {"dangling/c", "file/c", "file"}) {
    EXPECT_FALSE(MakeDirsInside(dir_.get(), path, 0755)) << path;
  }
  EXPECT_FALSE(std::filesystem::exists(path_ + "/nowhere"));
}

TEST_F(FilesTest, RemoveTreeDoesNotFollowSymlinks) {
  std::filesystem::create_directories(path_ + "/victim");
  std::ofstream(path_ + "/victim/file") << "stays";
  std::filesystem::create_directories(path_ + "/tree/deep/er");
  std::filesystem::create_symlink(path_ + "/victim", path_ + "/tree/deep/link");
  ASSERT_TRUE(RemoveTreeAt(dir_.get(), "tree"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/tree"));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/victim/file"));
  EXPECT_TRUE(RemoveTreeAt(dir_.get(), "tree")) << "absent is success";
}

TEST_F(FilesTest, SealedMemfdCannotBeWritten) {
  auto fd = SealedMemfd("plan", "data");
  ASSERT_TRUE(fd);
  EXPECT_EQ(*ReadFd(fd->get(), 100), "data");
  EXPECT_EQ(::pwrite(fd->get(), "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST_F(FilesTest, ErrorsNameTheCallAndThePath) {
  auto fd = OpenAt(dir_.get(), "absent", O_RDONLY);
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().message(), "open absent: no such file or directory");
  EXPECT_EQ(fd.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace holdfast::sys
