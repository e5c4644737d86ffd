// SPDX-License-Identifier: Apache-2.0
// Volumes of NFS servers, in a mount namespace of the test's own. A program that stands in for mount(8) mounts a tmpfs, or
// the file system of a server that does not answer: FUSE whose requests nobody reads. umount(8) and stat(1) are the node's
// own. With servers: tests/vm/scenarios/nfs.sh.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "agent/base/program_orphans.h"
#include "agent/volume/mount_point.h"
#include "agent/volume/nfs_mounter.h"
#include "agent/volume/persistent_volumes.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "tests/fakes/fake_device_holder.h"
#include "tests/support/own_mounts.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
namespace corev1 = ::k8s::io::api::core::v1;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

const bool g_nfs_mounts = test::EnterOwnMountNamespace();

class NfsVolumesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!g_nfs_mounts || ::geteuid() != 0) GTEST_SKIP() << "needs root, to mount";
    std::string pattern = testing::TempDir() + "holdfast-nfs-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
    model::Instance instance;
    instance.root_dir = top_;
    paths_.emplace(instance, uid_, "default", "web");
    fs::create_directories(paths_->Dir());
    pod_.mutable_metadata()->set_uid(uid_.value);
    programs_.owner = "nfs " + top_;
    programs_.answered = milliseconds(500);
    StandIn("exec mount -t tmpfs -o \"size=64k,$opts\" tmpfs \"$target\"");
  }
  void TearDown() override {
    if (top_.empty()) return;
    mounter_.reset();
    EndOrphans(programs_.owner);  // of a test that failed
    test::UnmountEntries(paths_->Volumes() + "/kubernetes.io~nfs");
    if (hung_.valid()) (void)::umount2((top_ + "/hung").c_str(), MNT_DETACH);
    fs::remove_all(top_);
  }

  // What stands in for `mount -t nfs [-o $opts] $source $target`.
  void StandIn(const std::string& text) {
    programs_.mount = top_ + "/mount";
    programs_.helper = programs_.mount;
    {
      std::ofstream file(programs_.mount);
      file << "#!/bin/sh\nopts=rw; shift 2\n[ \"$1\" != -o ] || { opts=$2; shift 2; }\n"
           << "source=$1 target=$2\n"
           << text << "\n";
    }
    fs::permissions(programs_.mount, fs::perms(0755));
    auto made = NfsMounter::Make(programs_);
    ASSERT_TRUE(made);
    mounter_ = std::move(*made);
  }
  // Of a server that never answers.
  void MakeHung() {
    hung_ = UniqueFd(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!hung_.valid()) GTEST_SKIP() << "no FUSE here";
    fs::create_directory(top_ + "/hung");
    const std::string options = StrCat("fd=", hung_.get(), ",rootmode=40000,user_id=0,group_id=0");
    ASSERT_EQ(::mount("hung", (top_ + "/hung").c_str(), "fuse", 0, options.c_str()), 0);
    StandIn(StrCat("exec mount --no-canonicalize --bind ", top_, "/hung \"$target\""));
  }

  PersistentVolume Volume(bool read_only = false) const {
    PersistentVolume volume{.name = "pv1", .spec = {}, .read_only = read_only};
    auto& nfs = *volume.spec.mutable_persistentvolumesource()->mutable_nfs();
    nfs.set_server("files");
    nfs.set_path("/exports");
    return volume;
  }
  VolumeMounters Mounters() { return {nullptr, mounter_.get(), devices_}; }
  std::string Ensure(bool read_only = false) {
    const auto errors = EnsurePersistentVolumes(pod_, *paths_, {{"data", Volume(read_only)}},
                                                Mounters(), cancelled_);
    return errors.empty() ? "" : errors.front().message();
  }
  Result<void> Release() { return ReleasePersistentVolumes(uid_, *paths_, Mounters()); }
  std::vector<std::string> Standing() {
    return StandingVolumes(uid_, *ReadPlacedVolumes(*paths_), devices_);
  }
  bool IsMounted() const { return *IsMountPoint(Place()); }
  std::string Place() const { return paths_->NfsVolume("data"); }
  // Of a process that nobody reaps yet: it does not.
  static bool Runs(const std::string& pid_file) {
    std::ifstream file(pid_file);
    std::string pid, line;
    if (!std::getline(file, pid)) return false;
    std::ifstream stat("/proc/" + pid + "/stat");
    return std::getline(stat, line) && line.find(") Z ") == std::string::npos;
  }

  const PodUid uid_{"u1"};
  std::string top_;
  std::optional<PodPaths> paths_;
  corev1::Pod pod_;
  NfsPrograms programs_;
  std::unique_ptr<NfsMounter> mounter_;
  fakes::FakeDeviceHolder devices_;
  std::atomic<bool> cancelled_ = false;
  UniqueFd hung_;
};

TEST_F(NfsVolumesTest, ItIsMountedOnceStandsAndGoesWithItsPod) {
  ASSERT_EQ(Ensure(true), "");
  const PlacedVolume placed = ReadPlacedVolumes(*paths_)->at("data");
  EXPECT_EQ(placed, (PlacedVolume{"pv1", "nfs", Place(), true, true}));
  EXPECT_EQ(Standing(), (std::vector<std::string>{"data"}));
  EXPECT_FALSE(std::ofstream(Place() + "/file").is_open()) << "read-only";
  StandIn("exit 1");
  EXPECT_EQ(Ensure(true), "") << "it stands already";
  ASSERT_TRUE(Release());
  EXPECT_FALSE(fs::exists(Place()));
  EXPECT_TRUE(ReadPlacedVolumes(*paths_)->empty());
  EXPECT_TRUE(Release()) << "again";
}

TEST_F(NfsVolumesTest, OneThatFailsAfterItMountedLeavesNothing) {
  StandIn("mount -t tmpfs tmpfs \"$target\"; echo gone >&2; exit 32");
  EXPECT_TRUE(Ensure().starts_with(
      "MountVolume.SetUp failed for volume \"pv1\" : mount failed: exit status 32\n"));
  EXPECT_FALSE(fs::exists(Place()));
  EXPECT_TRUE(Standing().empty());
}

// After a reboot, or when somebody unmounted it.
TEST_F(NfsVolumesTest, OneThatIsGoneIsMountedAnew) {
  ASSERT_EQ(Ensure(), "");
  ASSERT_EQ(::umount2(Place().c_str(), 0), 0);
  EXPECT_TRUE(Standing().empty());
  EXPECT_EQ(Ensure(), "");
  EXPECT_TRUE(IsMounted());
  EXPECT_TRUE(Release());
}

// Whoever looks into such a mount hangs: here a thread, which would be the test itself.
TEST_F(NfsVolumesTest, AServerThatDoesNotAnswerHoldsNobodyUp) {
  MakeHung();
  if (IsSkipped()) return;
  ASSERT_EQ(Ensure(), "");
  EXPECT_EQ(Standing(), (std::vector<std::string>{"data"}));
  EXPECT_EQ(Ensure(), "") << "as a new agent does";
  const auto answer = mounter_->Answers(Place(), cancelled_);
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message().find("no end within 500 ms"), std::string::npos)
      << answer.error().message();
  const auto since = steady_clock::now();
  const auto released = Release();
  EXPECT_TRUE(released) << released.error().message();
  EXPECT_LT(steady_clock::now() - since, std::chrono::seconds(20));
  EXPECT_FALSE(fs::exists(Place()));
}

// A killed process does not end before the kernel has written what it wrote: here one that waits in a call.
TEST_F(NfsVolumesTest, WhoWaitsForADeadServerAndWasKilledIsLetGoAfterAWhile) {
  programs_.patience = milliseconds(300);
  programs_.given_up = milliseconds(500);
  MakeHung();
  if (IsSkipped()) return;
  ASSERT_EQ(Ensure(), "");
  struct stat st{};
  int waiting_error = 0;
  std::thread waits([&, path = Place()] {
    if (::stat((path + "/file").c_str(), &st) != 0) waiting_error = errno;
  });
  EXPECT_FALSE(mounter_->GiveUpWaiting(Place())) << "it may end by itself";
  std::this_thread::sleep_for(milliseconds(400));
  EXPECT_TRUE(mounter_->GiveUpWaiting(Place()));
  waits.join();
  EXPECT_TRUE(IsMounted()) << "its next call has to be ended in the same way";
  EXPECT_NE(waiting_error, 0);
  EXPECT_TRUE(Release());
}

TEST_F(NfsVolumesTest, WhereTheServerAnswersNobodyLosesWhatHeWrites) {
  programs_.patience = milliseconds(0);
  programs_.umount = "/bin/false";
  StandIn("exec mount -t tmpfs tmpfs \"$target\"");
  ASSERT_EQ(Ensure(), "");
  EXPECT_FALSE(mounter_->GiveUpWaiting(Place()));
  EXPECT_TRUE(IsMounted());
  programs_.umount = "umount";
  StandIn("exit 1");
  EXPECT_TRUE(Release());
}

// Its call took the mount off and waits for the server, which nothing can end.
TEST_F(NfsVolumesTest, AProgramThatUnmountedAndDoesNotEndIsNotWaitedForLong) {
  const std::string pid_file = top_ + "/pid";
  programs_.umount = top_ + "/umount";
  programs_.unmounted = milliseconds(500);
  std::ofstream(programs_.umount)
      << "#!/bin/sh\nfor path; do :; done\numount -l \"$path\"\necho $$ > " << pid_file
      << "\nexec sleep 1000\n";
  fs::permissions(programs_.umount, fs::perms(0755));
  StandIn("exec mount -t tmpfs tmpfs \"$target\"");
  ASSERT_EQ(Ensure(), "");
  const auto released = Release();
  EXPECT_TRUE(released) << released.error().message();
  EXPECT_FALSE(fs::exists(Place()));
  EXPECT_FALSE(Runs(pid_file));
}

// It would mount where the next one has looked already.
TEST_F(NfsVolumesTest, WhatAKilledAgentWasMountingEndsBeforeAnythingIsMounted) {
  const std::string pid_file = top_ + "/pid";
  StandIn("echo $$ > " + pid_file + "; sleep 1000; mount -t tmpfs tmpfs \"$target\"");
  const std::string command =
      StrCat("HOLDFAST_OWNER='", programs_.owner, "' setsid -f ", programs_.mount,
             " -t nfs files:/ ", Place(), " > /dev/null 2>&1");
  ASSERT_EQ(::system(command.c_str()), 0);
  for (int i = 0; i < 500 && !Runs(pid_file); ++i) std::this_thread::sleep_for(milliseconds(10));
  ASSERT_TRUE(Runs(pid_file));
  StandIn("exec mount -t tmpfs tmpfs \"$target\"");
  ASSERT_EQ(Ensure(), "");
  EXPECT_FALSE(Runs(pid_file));
  EXPECT_TRUE(Release());
}

}  // namespace
}  // namespace holdfast::agent
