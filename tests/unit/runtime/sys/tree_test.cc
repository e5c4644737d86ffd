// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "tests/support/hostile_tree.h"

namespace holdfast::sys {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::NestDirectories;
using test::Troublemaker;
using test::WithLittleRoom;

class TreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // In memory, where there is such a place: this makes hundreds of thousands of directories.
    std::string pattern = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    pattern += "/holdfast-tree-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
    auto dir = OpenDir(path_);
    ASSERT_TRUE(dir) << dir.error().message();
    dir_ = std::move(*dir);
    fs::create_directory(Path("canary"));
    std::ofstream(Path("canary/file")) << "untouched";
  }
  void TearDown() override {
    std::ifstream canary(Path("canary/file"));
    std::string text;
    canary >> text;
    EXPECT_EQ(text, "untouched");
    EXPECT_TRUE(RemoveTreeAt(AT_FDCWD, path_));
  }

  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  bool Exists(const std::string& name) const { return ExistsAt(dir_.get(), name); }
  Result<void> Remove(const std::string& name, const RemoveLimits& limits = {}) {
    return RemoveTreeAt(dir_.get(), name, limits);
  }
  static RemoveLimits For(milliseconds time) {
    RemoveLimits limits;
    limits.until = std::chrono::steady_clock::now() + time;
    return limits;
  }
  // What VisitTree shows, by inode, and the number of visits.
  std::pair<std::set<ino_t>, size_t> Seen(const std::string& top) {
    auto fd = OpenDirAt(dir_.get(), top);
    std::set<ino_t> inodes;
    size_t visits = 0;
    const auto visited =
        VisitTree(fd->get(), [&](int, const struct stat& st, const std::string&) -> Result<void> {
          inodes.insert(st.st_ino);
          ++visits;
          return {};
        });
    EXPECT_TRUE(visited) << visited.error().message();
    return {inodes, visits};
  }

  std::string path_;
  DirFd dir_;
};

TEST_F(TreeTest, AHundredThousandLevelsAreRemovedWithASmallStackAndFewDescriptors) {
  ASSERT_TRUE(NestDirectories(Path("deep"), 100'000));
  EXPECT_TRUE(WithLittleRoom([&] { return Remove("deep").has_value(); }));
  EXPECT_FALSE(Exists("deep"));
}

TEST_F(TreeTest, AHundredThousandLevelsAreVisitedWithASmallStackAndFewDescriptors) {
  ASSERT_TRUE(NestDirectories(Path("deep"), 100'000));
  EXPECT_TRUE(WithLittleRoom([&] {
    const auto [inodes, visits] = Seen("deep");
    return inodes.size() == 100'001 && visits == 100'001;
  }));
}

TEST_F(TreeTest, WideDirectoriesBelowDeepOnesAreRemovedAndVisitedWhole) {
  std::string top = Path("tree");
  fs::create_directory(top);
  for (int level = 0; level < 40; ++level) {
    for (int i = 0; i < 20; ++i) {
      const std::string side = StrCat(top, "/side-", i);
      fs::create_directories(side + "/below");
      std::ofstream(side + "/below/file") << level;
    }
    top += "/next";
    fs::create_directory(top);
  }
  const auto [inodes, visits] = Seen("tree");
  EXPECT_EQ(visits, 40u * (20 * 3 + 1));
  EXPECT_EQ(inodes.size(), visits);
  RemoveLimits two;
  two.open_levels = 2;
  EXPECT_TRUE(Remove("tree", two));
  EXPECT_FALSE(Exists("tree"));
}

TEST_F(TreeTest, EveryKindOfEntryIsRemovedAndNoLinkFollowed) {
  const std::string tree = Path("tree");
  fs::create_directories(tree + "/sub");
  ASSERT_EQ(::mkfifo((tree + "/fifo").c_str(), 0600), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", (tree + "/socket").c_str());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  fs::create_symlink(Path("canary"), tree + "/link");
  fs::create_symlink("loop", tree + "/loop");
  fs::create_hard_link(Path("canary/file"), tree + "/hard");
  std::ofstream(tree + "/" + std::string(255, 'n')) << "long";
  std::ofstream(tree + "/new\nline\x1b") << "odd";
  if (::geteuid() == 0) {
    ASSERT_EQ(::mknod((tree + "/device").c_str(), S_IFCHR | 0600, 0), 0);
    ASSERT_EQ(::lchown((tree + "/link").c_str(), 1'000'000, 1'000'000), 0);
  }
  ASSERT_EQ(::chmod((tree + "/sub").c_str(), 0), 0);
  ASSERT_EQ(::chmod(tree.c_str(), 0700), 0);
  EXPECT_TRUE(Remove("tree"));
  EXPECT_FALSE(Exists("tree"));
  EXPECT_TRUE(Remove("tree")) << "absent is success";
  EXPECT_TRUE(Remove("no/such/parent")) << "here too";
}

TEST_F(TreeTest, ATreeThatIsRearrangedMeanwhileIsRemovedAndNothingElse) {
  fs::create_directory(Path("tree"));
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(NestDirectories(Path(StrCat("tree/chain-", i)), 200));
  }
  const auto change = [&](unsigned round) {
    const std::string a = Path(StrCat("tree/chain-", round % 50));
    const std::string b = Path(StrCat("tree/chain-", (round * 7 + 3) % 50, "/d"));
    // A chain into another, a link to the canary in its place, and more to remove.
    ::rename(a.c_str(), (b + "/moved").c_str());
    (void)!::symlink(Path("canary").c_str(), a.c_str());
    ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, (b + "/d").c_str(), RENAME_EXCHANGE);
    ::mkdir((b + "/new").c_str(), 0755);
  };
  {
    const Troublemaker other(change);
    (void)Remove("tree", For(seconds(5)));
  }
  const auto removed = Remove("tree");
  EXPECT_TRUE(removed) << removed.error().message();
  EXPECT_FALSE(Exists("tree"));
}

TEST_F(TreeTest, ATreeThatGrowsAllTheTimeIsLeftInTimeAndGoesLater) {
  fs::create_directory(Path("tree"));
  {
    const Troublemaker other([&](unsigned round) {
      ::mkdir(Path(StrCat("tree/d", round % 10'000)).c_str(), 0755);
      const UniqueFd file(::open(Path(StrCat("tree/d", round % 10'000, "/f", round)).c_str(),
                                 O_CREAT | O_WRONLY, 0600));
      ::mkdir(Path("tree").c_str(), 0755);
    });
    while (!Exists("tree/d100")) ::usleep(1000);
    const auto began = std::chrono::steady_clock::now();
    (void)Remove("tree", For(milliseconds(300)));
    EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(5));
  }
  EXPECT_TRUE(Remove("tree"));
  EXPECT_FALSE(Exists("tree"));
}

TEST_F(TreeTest, AStopEndsTheRemoval) {
  ASSERT_TRUE(NestDirectories(Path("tree"), 100));
  std::stop_source source;
  source.request_stop();
  RemoveLimits limits;
  limits.stop = source.get_token();
  const auto stopped = Remove("tree", limits);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(Exists("tree"));
}

TEST_F(TreeTest, WhatCannotBeRemovedIsSetAsideAndGoesAtALaterTry) {
  ASSERT_TRUE(NestDirectories(Path("tree"), 3));
  const std::string aside = Path("aside");
  const auto gone = RemoveOrSetAside(dir_.get(), "tree", aside);
  ASSERT_TRUE(gone);
  EXPECT_EQ(*gone, "");
  EXPECT_FALSE(Exists("aside")) << "made only when needed";

  ASSERT_TRUE(NestDirectories(Path("tree"), 3));
  const auto told = RemoveOrSetAside(dir_.get(), "tree", aside, milliseconds(0));
  ASSERT_TRUE(told) << told.error().message();
  EXPECT_NE(told->find("tree could not be removed and was set aside as " + aside + "/tree-"),
            std::string::npos)
      << *told;
  EXPECT_FALSE(Exists("tree"));
  ASSERT_EQ(ListAside(aside).size(), 1u);
  EXPECT_TRUE(ListAside(aside)[0].path.starts_with(aside + "/tree-"));

  const auto left = RetryAside(aside, {}, milliseconds(0));
  ASSERT_EQ(left.size(), 1u);
  EXPECT_NE(left[0].reason.find("not finished in the time"), std::string::npos) << left[0].reason;
  const auto tried = RetryAside(aside, {});
  ASSERT_EQ(tried.size(), 1u);
  EXPECT_EQ(tried[0].reason, "");
  EXPECT_FALSE(Exists("aside"));
  EXPECT_TRUE(ListAside(aside).empty());
}

TEST_F(TreeTest, WhoeverSweepsMeanwhileIsInNobodysWay) {
  const std::string aside = Path("aside");
  std::jthread sweeper([&aside](const std::stop_token& stop) {
    while (!stop.stop_requested()) (void)RetryAside(aside, {});
  });
  for (int i = 0; i < 10000; ++i) {
    ASSERT_TRUE(NestDirectories(Path("tree"), 1));
    const auto told = RemoveOrSetAside(dir_.get(), "tree", aside, milliseconds(0));
    ASSERT_TRUE(told) << "round " << i << ": " << told.error().message();
    ASSERT_NE(*told, "");
  }
}

TEST_F(TreeTest, AVisitNeverClimbsOutWhenADirectoryIsMovedAway) {
  ASSERT_TRUE(NestDirectories(Path("tree"), 60));
  ASSERT_TRUE(NestDirectories(Path("outside"), 1));
  auto top = OpenDirAt(dir_.get(), "tree");
  struct stat canary{};
  ASSERT_EQ(::stat(Path("canary").c_str(), &canary), 0);
  size_t visits = 0;
  bool strayed = false;
  bool moved = false;
  const auto walked = VisitTree(
      top->get(), [&](int, const struct stat& st, const std::string& name) -> Result<void> {
        strayed = strayed || st.st_ino == canary.st_ino || name == "canary" || name == "outside";
        // At the bottom, level 20 goes out of the tree: the way back by ".." leads elsewhere now.
        if (name == "bottom" && !moved) {
          std::string from = Path("tree");
          for (int i = 0; i < 20; ++i) from += "/d";
          moved = ::rename(from.c_str(), Path("outside/away").c_str()) == 0;
        }
        ++visits;
        return {};
      });
  EXPECT_TRUE(walked) << walked.error().message();
  EXPECT_TRUE(moved);
  EXPECT_FALSE(strayed);
  EXPECT_GE(visits, 61u);
}

TEST_F(TreeTest, AVisitShowsLinksThemselvesAndEndsWithTheFirstError) {
  fs::create_directory(Path("tree"));
  fs::create_symlink(Path("canary"), Path("tree/link"));
  auto top = OpenDirAt(dir_.get(), "tree");
  const auto visited =
      VisitTree(top->get(), [](int object, const struct stat& st, const std::string&) {
        EXPECT_TRUE(S_ISLNK(st.st_mode));
        struct stat same{};
        EXPECT_EQ(::fstat(object, &same), 0);
        EXPECT_EQ(same.st_ino, st.st_ino);
        return Result<void>(Internal("enough"));
      });
  ASSERT_FALSE(visited);
  EXPECT_EQ(visited.error().message(), "enough");
}

}  // namespace
}  // namespace holdfast::sys
