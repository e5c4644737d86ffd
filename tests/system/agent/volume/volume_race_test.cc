// SPDX-License-Identifier: Apache-2.0
// A container that changes its volume's tree as fast as it can while sub paths in it are made and opened for other
// containers, the volume is given to a group, and it is taken away: nothing outside is opened, made, changed or removed
// (security catalogue VO-01, B-21). HOLDFAST_WHOLE=1: 100,000 rounds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/volume/ownership.h"
#include "agent/volume/volumes.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/tree.h"
#include "runtime/gather/sources.h"
#include "tests/support/own_mounts.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;

const bool kRaceOwnMounts = test::EnterOwnMountNamespace();

int Rounds() { return ::getenv("HOLDFAST_WHOLE") != nullptr ? 100'000 : 2000; }

using Inode = std::pair<dev_t, ino_t>;

Inode InodeOf(int fd) {
  struct stat st{};
  EXPECT_EQ(::fstat(fd, &st), 0);
  return {st.st_dev, st.st_ino};
}

// All of a tree that somebody could have changed: mode, owner, times of change, names.
std::map<std::string, std::string> Print(const std::string& top) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(top)) {
    struct stat st{};
    EXPECT_EQ(::lstat(entry.path().c_str(), &st), 0);
    out[entry.path()] = StrCat(st.st_ino, " ", st.st_mode, " ", st.st_uid, ":", st.st_gid, " ",
                               st.st_nlink, " ", st.st_ctim.tv_sec, ".", st.st_ctim.tv_nsec);
  }
  return out;
}

// The hostile programs of one container: a process per way, so that they get in each other's way, too. Their root is
// `root`, so that a link which leads out leads the node out and not them; they work in `place` below it.
class Racers {
 public:
  using Way = void (*)(const std::string& outside, unsigned turn);

  Racers(const fs::path& root, const std::string& place, const std::string& outside,
         const std::vector<Way>& ways) {
    for (const Way way : ways) {
      const pid_t child = ::fork();
      if (child == 0) Run(root, place, outside, way);
      EXPECT_GT(child, 0);
      children_.push_back(child);
    }
  }
  ~Racers() {
    for (const pid_t child : children_) ::kill(child, SIGKILL);
    for (const pid_t child : children_) ::waitpid(child, nullptr, 0);
  }
  Racers(const Racers&) = delete;
  Racers& operator=(const Racers&) = delete;

 private:
  // The place is found anew now and then: it may be taken away and made again meanwhile.
  [[noreturn]] static void Run(const fs::path& root, const std::string& place,
                               const std::string& outside, Way way) {
    if (::chroot(root.c_str()) != 0 || ::chdir("/") != 0) ::_exit(1);
    for (unsigned turn = 0;; ++turn) {
      if (turn % 64 == 0 && ::chdir(place.c_str()) != 0) continue;
      way(outside, turn);
    }
  }

  std::vector<pid_t> children_;
};

void Exchange(const char* a, const char* b) {
  (void)::renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

// A directory and links that lead out trade places.
void SwapTop(const std::string& outside, unsigned /*turn*/) {
  (void)::mkdir("dir", 0777);
  (void)!::symlink(outside.c_str(), "away");
  Exchange("dir", "away");
}
void SwapBelow(const std::string& /*outside*/, unsigned turn) {
  (void)::mkdir("dir/sub", 0777);
  (void)!::symlink("../../../../../canary", "dir/climb");
  turn % 2 == 0 ? Exchange("dir/sub", "dir/climb") : Exchange("dir/sub", "away");
}
// ".." of a directory that has just been moved is another one.
void MoveUpAndDown(const std::string& outside, unsigned turn) {
  (void)::mkdir("a", 0777);
  (void)::mkdir("a/b", 0777);
  (void)::mkdir("a/b/c", 0777);
  (void)!::symlink("../../../canary", "a/b/c/up");
  (void)::rename("a/b/c", "c");
  if (turn % 3 == 0) (void)!::symlink(outside.c_str(), "a/b/c");
  (void)::rename("c", "a/b/c");
  if (turn % 3 == 0) (void)::unlink("a/b/c");
}
// What is about to be made is there as something else, or no more.
void TakeAwayAndLink(const std::string& outside, unsigned turn) {
  (void)!::symlink(outside.c_str(), "made");
  (void)::unlink("made");
  (void)::mkdir("made", 0777);
  (void)!::symlink(StrCat(outside, "/dir").c_str(), "made/on");
  (void)::unlink("made/on");
  (void)::rmdir("made/on");
  if (turn % 2 == 0) {
    (void)::rmdir("made");
  } else {
    (void)::rename("made", "dir/made");
  }
}
// Hard links and files in the places of directories.
void LinkFiles(const std::string& /*outside*/, unsigned turn) {
  const int file = ::open("file", O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
  if (file >= 0) ::close(file);
  (void)!::link("file", "dir/file");
  (void)!::link("file", "a/file");
  (void)::unlink("dir/file");
  if (turn % 2 == 0) Exchange("file", "made");
}

class VolumeRaceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kRaceOwnMounts || ::geteuid() != 0) GTEST_SKIP() << "needs root";
    std::string pattern = testing::TempDir() + "holdfast-race-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
    fs::create_directories(Canary() + "/dir/on/demand");
    fs::create_directories(Canary() + "/sub");
    fs::create_directories(Canary() + "/data/dir");
    std::ofstream(Canary() + "/secret") << "secret";
    fs::create_directories(Volume());
    NoteOutside();
    before_ = Print(Canary());
  }
  void TearDown() override {
    if (top_.empty()) return;
    fs::remove_all(top_);
  }

  std::string Canary() const { return top_ + "/canary"; }
  std::string Volume() const { return top_ + "/root/pods/u/volumes/data"; }

  // The canary, and every directory on the way to the volume.
  void NoteOutside() {
    for (fs::path dir = fs::path(Volume()).parent_path();; dir = dir.parent_path()) {
      outside_.insert(InodeOf(sys::OpenDir(dir)->get()));
      if (dir == dir.root_path()) break;
    }
    outside_.insert(InodeOf(sys::OpenDir(Canary())->get()));
    for (const auto& entry : fs::recursive_directory_iterator(Canary())) {
      if (entry.is_directory()) outside_.insert(InodeOf(sys::OpenDir(entry.path())->get()));
    }
  }

  model::MountSpec MountOf(const std::string& sub_path, const std::string& root = "") const {
    model::MountSpec mount;
    mount.source = Volume();
    mount.sub_path = sub_path;
    mount.source_root = root;
    return mount;
  }

  static Result<void> Remove(const fs::path& tree, std::chrono::milliseconds patience) {
    ASSIGN_OR_RETURN(const DirFd parent, sys::OpenDir(tree.parent_path()));
    const sys::RemoveLimits limits{.until = std::chrono::steady_clock::now() + patience};
    return sys::RemoveTreeAt(parent.get(), tree.filename(), limits);
  }

  // As a container's start does it, and then as the container would.
  void OpenAndWrite(const model::MountSpec& mount) {
    (void)EnsureSubPath(mount);
    const auto opened = runtime::OpenVolume(mount);
    if (!opened) {
      ++refused_;
      return;
    }
    ++opened_;
    if (outside_.contains(InodeOf(opened->get()))) ++hits_;
    if (sys::ReadFileAt(opened->get(), "secret", 100)) ++hits_;
    const int file =
        ::openat(opened->get(), "x", O_CREAT | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file >= 0) ::close(file);
  }

  void NothingWasTouched() const {
    EXPECT_EQ(hits_, 0) << "of " << opened_;
    EXPECT_EQ(Print(Canary()), before_);
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(top_)) names.insert(entry.path().filename());
    EXPECT_EQ(names, (std::set<std::string>{"canary", "root"}));
  }

  std::string top_;
  std::set<Inode> outside_;
  std::map<std::string, std::string> before_;
  int opened_ = 0, refused_ = 0, hits_ = 0;
};

TEST_F(VolumeRaceTest, SubPathsOfAVolumeThatIsChangedAtFullSpeedNeverLeaveIt) {
  const Racers racers(fs::path(Volume()).parent_path(), "/data", Canary(),
                      {SwapTop, SwapBelow, MoveUpAndDown, TakeAwayAndLink, LinkFiles});
  const char* const paths[] = {"dir",      "dir/sub", "dir/sub/secret", "a/b/c",
                               "a/b/c/up", "made",    "made/on/demand", "dir/climb/sub",
                               "away/dir", "file",    "a/b/c/d"};
  for (int round = 0; round < Rounds(); ++round) {
    const auto path = paths[static_cast<size_t>(round) % std::size(paths)];
    OpenAndWrite(MountOf(path));
  }
  EXPECT_GT(opened_, 0);
  EXPECT_GT(refused_, 0) << "the race is none";
  NothingWasTouched();
}

TEST_F(VolumeRaceTest, AVolumeThatIsChangedAtFullSpeedIsGivenAwayAndRemovedAlone) {
  const Racers racers(fs::path(Volume()).parent_path(), "/data", Canary(),
                      {SwapTop, SwapBelow, MoveUpAndDown, TakeAwayAndLink, LinkFiles});
  const fs::path volume = Volume();
  for (int round = 0; round < Rounds() / 10; ++round) {
    fs::create_directories(volume);
    const auto dir = sys::OpenAt(AT_FDCWD, volume, O_RDONLY | O_DIRECTORY);
    ASSERT_TRUE(dir) << dir.error().message();
    ::chmod(volume.c_str(), 0777);
    ::usleep(200);
    (void)GiveToGroup(dir->get(), 54321, false);  // what is gone meanwhile ends it
    OpenAndWrite(MountOf("made/on/demand"));
    // A tree that grows all the time is not gone in any time, and a directory that was read may be exchanged for another
    // before it is removed: what is left is for the next round.
    const auto removed = Remove(volume, std::chrono::milliseconds(20));
    EXPECT_TRUE(removed || removed.error().code() == Code::kDeadlineExceeded ||
                removed.error().sys_errno() == ENOTEMPTY)
        << removed.error().message();
  }
  NothingWasTouched();
}

// Who may write where the pod's volumes lie (a storage plugin) swaps the place itself.
void SwapPlace(const std::string& outside, unsigned /*turn*/) {
  (void)!::symlink(outside.c_str(), "../away");
  Exchange("../data", "../away");
}
void SwapOnTheWay(const std::string& outside, unsigned /*turn*/) {
  (void)::mkdir("../../../u2", 0777);
  (void)!::symlink(outside.c_str(), "../../../u2/volumes");
  (void)!::symlink("u2", "../../../u3");
  Exchange("../../../u", "../../../u3");
}

TEST_F(VolumeRaceTest, APlaceThatIsSwappedAtFullSpeedIsNeverFollowed) {
  fs::create_directories(Volume() + "/dir");
  const std::string root = top_ + "/root";
  const Racers racers(root, "/pods/u/volumes/data", Canary(), {SwapPlace, SwapOnTheWay});
  for (int round = 0; round < Rounds(); ++round) {
    OpenAndWrite(MountOf(round % 2 == 0 ? "dir" : "", root));
  }
  EXPECT_GT(opened_, 0);
  EXPECT_GT(refused_, 0) << "the race is none";
  NothingWasTouched();
}

}  // namespace
}  // namespace holdfast::agent
