// SPDX-License-Identifier: Apache-2.0
// Security catalogue 1.1 and 1.2: images and volumes that try to make the launch write, mount or
// look outside of the container. The canary outside must not change, and what starts must be
// confined.
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "tests/support/eventually.h"
#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using State = LaunchOutcome::State;

class HostileImageTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    if (IsSkipped()) return;
    std::filesystem::create_directory(Path("canary"));
    WriteFile("canary/file", "untouched");
    before_ = Canary();
    mounts_ = *sys::ReadFileAt(AT_FDCWD, "/proc/self/mountinfo", 1 << 20);
    core_ = *sys::ReadFileAt(AT_FDCWD, "/proc/sys/kernel/core_pattern", 4096);
  }
  void TearDown() override {
    if (!IsSkipped()) {
      EXPECT_EQ(Canary(), before_);
      EXPECT_EQ(*sys::ReadFileAt(AT_FDCWD, "/proc/self/mountinfo", 1 << 20), mounts_);
      EXPECT_EQ(*sys::ReadFileAt(AT_FDCWD, "/proc/sys/kernel/core_pattern", 4096), core_);
    }
    LaunchTest::TearDown();
  }

  std::string Canary() {
    std::string seen;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Path("canary"))) {
      seen += entry.path().string() + "\n";
    }
    return seen + *sys::ReadFileAt(AT_FDCWD, Path("canary/file"), 4096);
  }

  void LinkInImage(const std::string& target, const std::string& name) {
    std::filesystem::create_symlink(target, Path("image/" + name));
  }

  model::LaunchPlan WithVolume(const std::string& destination, bool file = false) {
    model::LaunchPlan plan = BasePlan({"/bin/probe", "facts"});
    model::MountPlan volume;
    if (file) WriteFile("single", "x");
    volume.source = AddTree(Path(file ? "single" : "volume"));
    volume.destination = destination;
    plan.mounts.push_back(volume);
    return plan;
  }

  // What an earlier start made in the upper layer would hide the image's trap.
  void FreshScratch() {
    std::filesystem::remove_all(Path("scratch"));
    std::filesystem::create_directory(Path("scratch"));
  }

  // "../../..", enough of them for any temporary directory.
  std::string Outside() const { return "../../../../../../../../.." + Path("canary"); }

 private:
  std::string before_;
  std::string mounts_;
  std::string core_;
};

// RT-05, RT-08, RT-09
TEST_F(HostileImageTest, StandardDirectoriesMustBeOrdinaryDirectories) {
  for (const char* name : {"proc", "sys", "dev"}) {
    for (const std::string& target : {Path("canary"), Outside(), std::string("bin")}) {
      LinkInImage(target, name);
      FreshScratch();
      const RunResult run = Run(BasePlan({"/bin/probe"}));
      EXPECT_EQ(run.outcome.state, State::kFailed) << name << " -> " << target;
      EXPECT_NE(Why(run).find("must be mounted on an ordinary directory"), std::string::npos)
          << Why(run);
      std::filesystem::remove(Path(std::string("image/") + name));
    }
    WriteFile(std::string("image/") + name, "a file");
    FreshScratch();
    EXPECT_EQ(Run(BasePlan({"/bin/probe"})).outcome.state, State::kFailed) << name;
    std::filesystem::remove(Path(std::string("image/") + name));
  }
}

// RT-07
TEST_F(HostileImageTest, DestinationsThroughSymlinksStayInsideTheRoot) {
  LinkInImage(Path("canary"), "absolute");
  LinkInImage(Outside(), "climbing");
  for (const char* destination : {"/absolute/dir", "/climbing/dir", "/absolute", "/climbing"}) {
    for (const bool file : {false, true}) {
      FreshScratch();
      const RunResult run = Run(WithVolume(destination, file));
      // Inside the root it is an ordinary name, or it is refused; TearDown looks at the canary.
      EXPECT_TRUE(run.outcome.state == State::kFailed || run.exit.code == 0);
    }
  }
  model::LaunchPlan plan = BasePlan({"/bin/probe", "facts"});
  plan.process.cwd = "/absolute/made/by/workdir";
  (void)Run(plan);
}

TEST_F(HostileImageTest, ADanglingSymlinkIsNoPlaceForAFile) {
  LinkInImage("/nowhere/file", "dangling");
  const RunResult run = Run(WithVolume("/dangling", true));
  EXPECT_EQ(run.outcome.state, State::kFailed);
}

// RT-05: nothing is mounted over, or written through, a procfs.
TEST_F(HostileImageTest, NothingIsMountedOnProc) {
  LinkInImage("/proc/self/attr", "attr");
  LinkInImage("/proc", "other-proc");
  for (const char* destination :
       {"/proc/self/attr", "/proc/sys/kernel", "/proc/1", "/attr", "/other-proc", "/proc"}) {
    const RunResult run = Run(WithVolume(destination));
    EXPECT_EQ(run.outcome.state, State::kFailed) << destination;
    EXPECT_EQ(run.outcome.step, "mounts") << destination;
  }
}

// RT-02
TEST_F(HostileImageTest, NoWorkingDirectoryOutsideTheRoot) {
  LinkInImage("/proc/self/fd/5", "innocent");
  std::vector<std::string> candidates = {"/innocent", "/innocent/../.."};
  for (int fd = 0; fd < 64; ++fd) {
    candidates.push_back("/proc/self/fd/" + std::to_string(fd));
    candidates.push_back("/proc/self/fd/" + std::to_string(fd) + "/../../..");
  }
  candidates.push_back("/proc/thread-self/fd/3");
  candidates.push_back("/proc/1/cwd");
  candidates.push_back("/proc/self/root/..");
  for (const std::string& cwd : candidates) {
    model::LaunchPlan plan = BasePlan({"/bin/probe", "facts"});
    plan.process.cwd = cwd;
    const RunResult run = Run(plan);
    if (run.outcome.state == State::kRunning) {
      EXPECT_TRUE(run.Fact("cwd").starts_with("/")) << cwd;
      EXPECT_EQ(run.Fact("cwd").find("unreachable"), std::string::npos) << cwd;
      EXPECT_EQ(run.output.find(directory_), std::string::npos) << cwd;
    }
    EXPECT_NE(run.outcome.state, State::kRunning) << cwd;
  }
}

// RT-03
TEST_F(HostileImageTest, MasksAreTheNullDeviceOrNothingStarts) {
  std::filesystem::create_symlink("/proc/sys/kernel/core_pattern", Path("volume/null"));
  std::filesystem::create_directory(Path("volume/pts"));
  std::filesystem::create_directory(Path("volume/mqueue"));
  model::LaunchPlan plan = BasePlan({"/bin/probe", "facts"});
  for (model::MountPlan& mount : plan.mounts) {
    if (mount.destination != "/dev") continue;
    mount = {};
    mount.destination = "/dev";
    mount.source = AddTree(Path("volume"));
  }
  const RunResult run = Run(plan);
  EXPECT_EQ(run.outcome.state, State::kFailed);
  EXPECT_EQ(run.outcome.step, "masked paths");
}

// A file system of our own is looked into by name only as long as it is what shows there.
TEST_F(HostileImageTest, WhatComesAfterAVolumeOverOurDevIsMountedInTheVolume) {
  LinkInImage("dev", "other-dev");
  model::LaunchPlan plan = WithVolume("/other-dev");
  const auto pts = std::ranges::find(plan.mounts, "/dev/pts", &model::MountPlan::destination);
  std::rotate(pts, plan.mounts.end() - 1, plan.mounts.end());
  plan.masked_paths.clear();  // they take the /dev/null that the volume has not
  const RunResult run = Run(plan);
  EXPECT_EQ(run.exit.code, 0) << Why(run);
  EXPECT_TRUE(std::filesystem::is_directory(Path("volume/pts")));
  EXPECT_TRUE(std::filesystem::is_directory(Path("volume/mqueue")));
}

// RT-06: a mount target's parent lies in a volume in which somebody swaps directory and symlink.
TEST_F(HostileImageTest, AMountMayCoverTheWayToItself) {
  std::filesystem::create_directory(Path("image/data"));
  LinkInImage("/data", "data/in");
  model::LaunchPlan plan = BasePlan({"/bin/probe", "write", "/data/in/below/note", "x"});
  for (const char* destination : {"/data/in", "/data/in/below"}) {
    model::MountPlan mount;
    mount.kind = model::MountPlan::Kind::kTmpfs;
    mount.destination = destination;
    plan.mounts.push_back(mount);
  }
  const RunResult run = Run(plan);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.output, "/data/in/below/note written\n");
  for (const char* made : {"scratch/upper/data/in", "scratch/upper/data/below"}) {
    EXPECT_FALSE(std::filesystem::exists(Path(made))) << made;
  }
}

TEST_F(HostileImageTest, ASwappedParentNeverMovesAMountOutside) {
  std::filesystem::create_directory(Path("volume/target"));
  std::filesystem::create_directory_symlink(Path("canary"), Path("volume/link"));
  int started = 0;
  const UniqueFd volume(::open(Path("volume").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  // A process, not a thread: the launcher is single-threaded.
  auto swapper = sys::Clone(0);
  ASSERT_TRUE(swapper.has_value());
  if (swapper->pid == 0) {
    for (;;) {
      ::renameat2(volume.get(), "target", volume.get(), "link", RENAME_EXCHANGE);
    }
  }
  for (int round = 0; round < 200; ++round) {
    model::LaunchPlan plan = BasePlan({"/bin/probe", "mounts"});
    model::MountPlan shared;
    shared.source = AddTree(Path("volume"));
    shared.destination = "/shared";
    model::MountPlan inner;
    inner.source = AddTree(Path("image/bin"));
    inner.destination = "/shared/target/inner";
    plan.mounts.push_back(shared);
    plan.mounts.push_back(inner);
    const RunResult run = Run(plan);
    if (run.outcome.state == State::kRunning) ++started;
  }
  (void)sys::SendSignal(swapper->pidfd.get(), SIGKILL);
  pollfd event{swapper->pidfd.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&event, 1, 10000), 1);
  ASSERT_TRUE(sys::ReapExit(swapper->pidfd.get()).has_value());
  EXPECT_GT(started, 0);
}

// PR-01: the process that joins a container cannot be traced from inside before it has executed.
TEST_F(HostileImageTest, TheChildIsNotDumpableUntilExec) {
  auto pending = Launch(context_, BasePlan({"probe", "sleep"}), fds_, std::chrono::seconds(10));
  ASSERT_TRUE(pending.has_value()) << pending.error().message();
  // Files of a process that may not be traced belong to root, whoever it runs as; the mode of its
  // descriptors' directory shows it.
  struct stat st{};
  const std::string path = "/proc/" + std::to_string(pending->pid()) + "/fd";
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 0u);
  // It works before "go"; what it was given it holds until it has used it.
  std::set<std::string> held;
  const auto given = [&](const std::string& what) { return what.starts_with(directory_); };
  EXPECT_TRUE(test_support::Eventually([&] {
    held.clear();
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      std::error_code closed_meanwhile;
      held.insert(std::filesystem::read_symlink(entry.path(), closed_meanwhile).string());
    }
    return std::none_of(held.begin(), held.end(), given);
  })) << ::testing::PrintToString(held);
  EXPECT_LE(held.size(), 7u);  // the three streams, procfs, null, the socket
}

}  // namespace
}  // namespace holdfast::runtime
