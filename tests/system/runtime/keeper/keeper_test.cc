// SPDX-License-Identifier: Apache-2.0
// The keeper's promises without any kill: launch, exit, logs, descriptors, sandboxes, upgrade.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/socket.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/paths.h"
#include "runtime/keeper/common/wire.h"
#include "runtime/plan/wire.h"
#include "tests/support/text_file.h"
#include "tests/system/runtime/keeper/harness.h"

namespace holdfast::runtime::keeper {
namespace {

using test_support::ReadText;

TEST_F(KeeperTest, OneContainerFromLaunchToForget) {
  StartHolder();
  Subject one = Make("one", {"/bin/chatter", "lines", "0", "7", "1000"}, 7);
  auto launched = Start(one);
  ASSERT_TRUE(launched) << launched.error().step << ": " << launched.error().text;
  EXPECT_EQ(one.start.pid, launched->pid);
  EXPECT_EQ(one.start.tag, "tag of " + one.id);
  const model::ExitReport report = WaitExit(one);
  EXPECT_EQ(report.exit_code, 7);
  EXPECT_EQ(report.source, model::ExitReport::Source::kWaited);
  ASSERT_TRUE(client().WaitLogDrained(ContainerId(one.id), std::chrono::seconds(10)));
  EXPECT_EQ(ExpectComplete(one), 1100u);
  Clean(one);
  ExpectNothingLeft();
}

// How often the keeper's processes have waited for something, all together.
uint64_t Waits(const std::vector<pid_t>& processes) {
  constexpr std::string_view kField = "\nvoluntary_ctxt_switches:";
  uint64_t sum = 0;
  for (const pid_t process : processes) {
    const std::string status = ReadText(StrCat("/proc/", process, "/status"));
    const size_t at = status.find(kField);
    if (at != std::string::npos) sum += std::stoull(status.substr(at + kField.size()));
  }
  return sum;
}

TEST_F(KeeperTest, WhileNothingHappensItSleeps) {
  StartHolder();
  Subject one = Make("one", {"/bin/chatter", "sleep", "7"}, 7);
  ASSERT_TRUE(Start(one));
  std::vector<pid_t> all;
  for (const char* command : {"hold", "launch", "log"}) {
    for (const pid_t process : Processes(command)) all.push_back(process);
  }
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(Eventually([&all] {
    const uint64_t before = Waits(all);
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return Waits(all) == before;
  }));
  EXPECT_EQ(Stop(one).exit_code, 7) << "and hears what happens";
  Clean(one);
}

TEST_F(KeeperTest, UpgradeInPlaceKeepsProcessesContainersAndLines) {
  StartHolder();
  WaitForKeeper();
  Subject writer = Make("writer", {"/bin/chatter", "lines", "50", "8"}, 8, 300000);
  ASSERT_TRUE(Start(writer));
  model::SandboxPlan plan;
  auto memfd = sys::SealedMemfd("plan", SerializePlan(model::Plan(plan)));
  ASSERT_TRUE(client().MakeSandbox(PodUid("pod"), memfd->get()));
  const auto processes = [&] {
    return std::make_tuple(Processes("hold"), Processes("launch"), Processes("log"));
  };
  // The child that made the namespaces ends by itself, and so does one that compresses a log.
  ASSERT_TRUE(
      Eventually([&] { return Processes("launch").size() == 1 && Processes("log").size() == 1; }));
  const auto before = processes();
  auto binary = sys::OpenAt(AT_FDCWD, KEEPER_BINARY, O_RDONLY);
  ASSERT_TRUE(binary);
  for (int i = 0; i < 5; ++i) {
    auto upgraded = client().Upgrade(binary->get());
    ASSERT_TRUE(upgraded) << upgraded.error().message();
  }
  EXPECT_TRUE(Eventually([&] { return processes() == before; }));
  EXPECT_EQ(holder_starts_, 1);
  EXPECT_EQ(client().GetSandbox(PodUid("pod"))->size(), 3u);
  ASSERT_TRUE(client().DropSandbox(PodUid("pod")));
  const model::ExitReport report = Stop(writer);
  EXPECT_EQ(report.exit_code, 8);
  EXPECT_EQ(report.source, model::ExitReport::Source::kWaited);
  ASSERT_TRUE(client().WaitLogDrained(ContainerId(writer.id), kPatience));
  EXPECT_GT(ExpectComplete(writer), 0u);
  Clean(writer);
  ExpectNothingLeft();
  // The holder may still have a connection that its peer has just closed.
  const auto few = [](const auto& each) { return each.second <= kIdleDescriptors; };
  EXPECT_TRUE(Eventually([&] { return std::ranges::all_of(DescriptorCounts(), few); }));
}

TEST_F(KeeperTest, AnUpgradeToSomethingElseIsRefused) {
  StartHolder();
  auto text = sys::SealedMemfd("no-program", "#!/bin/sh\n");
  auto refused = client().Upgrade(text->get());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(client().Ping());
}

TEST_F(KeeperTest, ARepeatedLaunchGivesTheSameProcess) {
  StartHolder();
  Subject one = Make("twice", {"/bin/chatter", "sleep", "2"}, 2);
  auto first = Start(one);
  ASSERT_TRUE(first);
  LaunchRequest again;
  again.id = one.id;
  auto plan = sys::SealedMemfd("plan", "never read");
  again.plan = plan->get();
  auto second = client().Launch(again);
  ASSERT_TRUE(second) << second.error().text;
  EXPECT_EQ(second->pid, first->pid);
  EXPECT_EQ(second->start_ticks, first->start_ticks);
  EXPECT_EQ(Stop(one).exit_code, 2);
  Clean(one);
  ExpectNothingLeft();
}

TEST_F(KeeperTest, DescriptorsSurviveTheHolder) {
  StartHolder();
  WaitForKeeper();
  auto kept = sys::SealedMemfd("kept", "still here");
  ASSERT_TRUE(client().PutFds("stdin.x", {kept->get()}));
  KillAll("hold");
  auto got = client().GetFds("stdin.x");
  ASSERT_TRUE(got) << got.error().message();
  auto text = sys::ReadFd(got->front().get(), 100);
  EXPECT_EQ(*text, "still here");
  ASSERT_TRUE(client().DropFds("stdin.x"));
  EXPECT_EQ(client().GetFds("stdin.x").error().code(), Code::kNotFound);
  EXPECT_EQ(client().PutFds("log.x.1", {kept->get()}).error().code(), Code::kInvalidArgument);
}

TEST_F(KeeperTest, ALauncherWithoutAHolderDoesNotStayForMembers) {
  StartHolder();
  WaitForKeeper();
  auto plan = sys::SealedMemfd("plan", SerializePlan(model::Plan(model::SandboxPlan())));
  ASSERT_TRUE(client().MakeMember("m", plan->get()));
  StopTending();
  KillAll("hold");
  EXPECT_TRUE(Eventually([this] { return Processes("launch").empty(); }));
}

// The holder, which was busy, has all that the launcher had told it before it was asked to drop the rest of the member.
TEST_F(KeeperTest, AMemberThatIsTakenAndDroppedIsThePodsWithBothOwners) {
  StartHolder();
  WaitForKeeper();
  const pid_t holder = Processes("hold").at(0);
  auto plan = sys::SealedMemfd("plan", SerializePlan(model::Plan(model::SandboxPlan())));
  const PodUid uid("taker");
  ASSERT_EQ(::kill(holder, SIGSTOP), 0);
  ASSERT_TRUE(client().MakeMember("m", plan->get()));
  ASSERT_TRUE(client().BeginSandbox(uid, plan->get(), {}, "m").Await());
  auto socket = sys::ConnectSeqpacket(Path(StrCat("run/", kHolderSocket)));
  ASSERT_TRUE(socket) << socket.error().message();
  ASSERT_TRUE(SendMessage(socket->get(), MessageType::kDropPrefix,
                          Encoder().Text(SandboxPrefix(PoolMember("m"))).Take()));
  ASSERT_EQ(::kill(holder, SIGCONT), 0);
  ASSERT_TRUE(ReceiveMessage(socket->get()));
  KillAll("launch");
  const auto got = client().GetSandbox(uid);
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(got->size(), 3u);
  EXPECT_TRUE(client().DropSandbox(uid));
  ExpectNothingLeft();
}

TEST_F(KeeperTest, WhatALauncherWasWritingGoesWithIt) {
  StartHolder();
  WaitForKeeper();
  const std::string name = StrCat("/.half.", Processes("launch").at(0), ".tmp");
  const std::string halves[] = {Path("run/keeper/starts") + name, Path("run/keeper/exits") + name};
  for (const std::string& half : halves) std::ofstream(half).close();
  KillAll("launch");
  for (const std::string& half : halves) {
    EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(half); })) << half;
  }
}

// The terminal's output survives the logger; its line discipline turns \n into \r\n.
TEST_F(KeeperTest, ATerminalIsLoggedAcrossADeadLogger) {
  StartHolder();
  Subject tty = Make("tty", {"/bin/chatter", "lines", "2000", "4"}, 4);
  const ContainerId id(tty.id);
  auto launched = StartWithTerminal(tty);
  ASSERT_TRUE(launched) << launched.error().step << ": " << launched.error().text;
  EXPECT_TRUE(launched->pty_master.valid());
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = client().GetLogStatus(id)->bytes_in;
    EXPECT_TRUE(Eventually([&] { return client().GetLogStatus(id)->bytes_in > before + 1000; }));
    KillAll("log");
  }
  EXPECT_TRUE(client().GetTty(id));
  EXPECT_EQ(Stop(tty).exit_code, 4);
  launched->pty_master.Reset();
  ASSERT_TRUE(client().WaitLogDrained(id, kPatience));
  EXPECT_GT(ExpectTerminalComplete(tty), 50u);
  Clean(tty);
  ExpectNothingLeft();
}

struct PipeEnds {
  PipeEnds() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
    read.Reset(fds[0]);
    write.Reset(fds[1]);
  }
  UniqueFd read, write;
};

// More than there may be at once, one after the other, to a container that says nothing.
TEST_F(KeeperTest, WhoWasAttachedToASilentContainerAndHasGoneIsForgotten) {
  StartHolder();
  Subject silent = Make("silent", {"/bin/chatter", "sleep", "7"}, 7);
  ASSERT_TRUE(Start(silent));
  const size_t before = DescriptorCounts()["log"];
  for (int i = 0; i < 20; ++i) {
    const PipeEnds out, err;
    const auto attached =
        client().AttachLog(ContainerId(silent.id), out.write.get(), err.write.get());
    ASSERT_TRUE(attached) << i << ": " << attached.error().message();
  }
  EXPECT_TRUE(Eventually([&] { return DescriptorCounts()["log"] <= before; }));
  EXPECT_EQ(Stop(silent).exit_code, 7);
  Clean(silent);
}

TEST_F(KeeperTest, ATruncatedOrRemovedLogGoesOn) {
  StartHolder();
  // Rarely, so that no write is under way at the moment of the truncation (docs/logs.md).
  Subject one = Make("meddled", {"/bin/chatter", "lines", "50000", "0"}, 0);
  ASSERT_TRUE(Start(one));
  const auto has_lines = [&] { return std::filesystem::file_size(one.log.path) > 500; };
  ASSERT_TRUE(Eventually(has_lines));
  ASSERT_EQ(::truncate(one.log.path.c_str(), 0), 0);
  ASSERT_TRUE(Eventually(has_lines));
  EXPECT_FALSE(ReadLog(one).empty()) << "no hole of zero bytes, every line well formed";
  std::filesystem::remove(one.log.path);
  const std::string outside = Path("outside");
  std::ofstream(outside) << "untouched";
  std::filesystem::create_symlink(outside, one.log.path);
  ASSERT_TRUE(Eventually([&] {
    return !std::filesystem::is_symlink(one.log.path) && std::filesystem::exists(one.log.path) &&
           has_lines();
  }));
  std::string text;
  std::getline(std::ifstream(outside), text);
  EXPECT_EQ(text, "untouched");
  Stop(one);
  Clean(one);
}

TEST_F(KeeperTest, ALogIsBoundedByItsQuotaWhileItIsFlooded) {
  StartHolder();
  Subject flood = Make("flood", {"/bin/chatter", "lines", "0", "0", "600000"}, 0, 1 << 20);
  flood.log.max_files = 3;
  ASSERT_TRUE(Start(flood));
  const auto directory = std::filesystem::path(flood.log.path).parent_path();
  uintmax_t most = 0;
  bool ended = false;
  while (!ended) {
    uintmax_t total = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      std::error_code gone;
      const uintmax_t size = entry.file_size(gone);
      if (!gone) total += size;
    }
    most = std::max(most, total);
    auto exit = client().FindExit(flood.start, flood.pidfd.get());
    ended = exit && *exit;
  }
  EXPECT_LE(most, 3u * (1 << 20) * 11 / 10 + (1 << 20)) << "one more while files are replaced";
  EXPECT_GT(client().GetLogStatus(ContainerId(flood.id))->rotations, 50u);
  Clean(flood);
  ExpectNothingLeft();
}

// What a container that has the log directory mounted can put in the way of the compression: each
// of these names comes before those of the rotated files.
TEST_F(KeeperTest, WhatIsNoFileOfOursDoesNotHoldUpCompression) {
  StartHolder();
  Subject flood = Make("hindered", {"/bin/chatter", "lines", "0", "0", "120000"}, 0, 1 << 20);
  flood.log.max_files = 1000;
  const auto directory = std::filesystem::path(flood.log.path).parent_path();
  std::filesystem::create_directories(directory);
  const std::string prefix = flood.log.path + ".20000101-00000";
  const std::string outside = Path("outside");
  std::ofstream(outside) << "untouched";
  ASSERT_EQ(::mkfifo((prefix + "0").c_str(), 0600), 0);
  std::filesystem::create_symlink(outside, prefix + "1");
  std::filesystem::create_hard_link(outside, prefix + "2");
  std::filesystem::create_directory(prefix + "3");
  std::ofstream(prefix + "4") << "endless";
  std::filesystem::resize_file(prefix + "4", 1ull << 42);
  ASSERT_TRUE(Start(flood));
  const auto compressed = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const std::string path = entry.path();
      if (path.ends_with(".gz") && !path.starts_with(prefix)) return true;
    }
    return false;
  };
  EXPECT_TRUE(Eventually(compressed));
  for (const char* name : {"0", "1", "2", "3", "4"}) {
    EXPECT_FALSE(std::filesystem::exists(prefix + name + ".gz")) << name;
  }
  EXPECT_EQ(test_support::ReadText(outside), "untouched");
  Stop(flood);
  Clean(flood);
  ExpectNothingLeft();
}

// One that failed and is tried again at once, as on a full disk, would take a processor for as long as it fails.
TEST_F(KeeperTest, ACompressionThatFailsWaitsForTheNextRotation) {
  StartHolder();
  WaitForKeeper();
  Subject flood = Make("uncompressed", {"/bin/chatter", "lines", "0", "0", "120000"}, 0, 1 << 20);
  flood.log.max_files = 1000;
  ASSERT_TRUE(Start(flood));
  const pid_t logger = Processes("log").at(0);
  std::set<pid_t> tried;
  const auto fail = [&] {  // a logger has no other children
    std::ifstream children(StrCat("/proc/", logger, "/task/", logger, "/children"));
    for (pid_t pid = 0; children >> pid;) {
      ::kill(pid, SIGKILL);
      tried.insert(pid);
    }
  };
  ASSERT_TRUE(Eventually([&] {
    fail();
    const auto exit = client().FindExit(flood.start, flood.pidfd.get());
    return exit && *exit;
  }));
  ASSERT_TRUE(client().WaitLogDrained(ContainerId(flood.id), std::chrono::seconds(60)));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < until) fail();  // what must not happen gets its time
  const uint64_t rotations = client().GetLogStatus(ContainerId(flood.id))->rotations;
  EXPECT_GT(tried.size(), 0u);
  EXPECT_LE(tried.size(), 2 * rotations + 1) << "each rotation may bring a failure and a success";
  Clean(flood);
  ExpectNothingLeft();
}

// A file system of its own below one container's logs.
class SmallDisk {
 public:
  SmallDisk(std::string path, const char* size) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    EXPECT_EQ(::mount("small", path_.c_str(), "tmpfs", 0, StrCat("size=", size).c_str()), 0);
  }
  ~SmallDisk() { EXPECT_EQ(::umount2(path_.c_str(), MNT_DETACH), 0); }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  void Grow(const char* size) {
    EXPECT_EQ(::mount("", path_.c_str(), nullptr, MS_REMOUNT, StrCat("size=", size).c_str()), 0);
  }

 private:
  const std::string path_;
};

// Logs on a file system without room: output waits, is dropped when that lasts, and is reported to
// the byte.
TEST_F(KeeperTest, AFullDiskDropsLinesAndSaysHowMuch) {
  using std::chrono::steady_clock;
  SmallDisk disk(Path("logs/pod_full/main"), "128k");
  StartHolder();
  Subject full = Make("full", {"/bin/chatter", "lines", "20", "0", "200000"}, 0);
  ASSERT_TRUE(Start(full));
  const ContainerId id(full.id);
  uint64_t read = 0;
  auto stands_since = steady_clock::now();
  EXPECT_TRUE(Eventually([&] {
    const auto status = client().GetLogStatus(id);
    if (status->bytes_dropped == 0 && status->bytes_in != read) {
      read = status->bytes_in;
      stands_since = steady_clock::now();
    }
    return status->bytes_dropped > 0;
  }));
  // Less than the ten seconds that output waits by how far apart the looks are.
  EXPECT_GE(steady_clock::now() - stands_since, std::chrono::seconds(9));
  disk.Grow("64m");
  EXPECT_TRUE(Eventually([&] {
    return ReadText(full.log.path).find("bytes of output were lost here") != std::string::npos;
  }));
  Stop(full);
  ASSERT_TRUE(client().WaitLogDrained(id, kPatience));
  const auto status = client().GetLogStatus(id);
  uint64_t kept = 0;
  uint64_t told = 0;
  for (const LogLine& line : ReadLog(full)) {
    unsigned long long lost = 0;
    const char* format = "holdfast: %llu bytes of output were lost here";
    if (std::sscanf(line.text.c_str(), format, &lost) == 1) {
      told += lost;
    } else {
      kept += line.text.size() + (line.tag == 'F' ? 1 : 0);
    }
  }
  EXPECT_EQ(told, status->bytes_dropped);
  EXPECT_EQ(kept + told, status->bytes_in);
  Clean(full);
}

// The container's own rotated files make room first: nothing new is lost while there are any.
TEST_F(KeeperTest, AFullDiskTakesTheOldestLinesFirst) {
  const SmallDisk disk(Path("logs/pod_rotated/main"), "400k");
  StartHolder();
  // However many files: only the lack of room can take one away.
  Subject rotated = Make("rotated", {"/bin/chatter", "lines", "5", "0"}, 0, 100'000);
  ASSERT_TRUE(Start(rotated));
  const ContainerId id(rotated.id);
  const auto directory = std::filesystem::path(rotated.log.path).parent_path();
  ptrdiff_t most = 0;
  EXPECT_TRUE(Eventually([&] {
    const auto files = std::distance(std::filesystem::directory_iterator(directory), {});
    most = std::max(most, files);
    return files + 3 < most;
  }));
  Stop(rotated);
  ASSERT_TRUE(client().WaitLogDrained(id, kPatience));
  EXPECT_EQ(client().GetLogStatus(id)->bytes_dropped, 0u);
  // Without a gap from the oldest line that is left, which is not the first.
  long next = -1;
  for (const LogLine& line : ReadLog(rotated, false)) {
    long number = 0;
    if (std::sscanf(line.text.c_str(), "out %ld", &number) != 1) continue;
    if (next < 0) {
      EXPECT_GT(number, 0);
    }
    EXPECT_TRUE(next < 0 || number == next) << line.text << ", wanted " << next;
    next = number + 1;
  }
  EXPECT_GT(next, 0);
  Clean(rotated);
}

}  // namespace
}  // namespace holdfast::runtime::keeper
