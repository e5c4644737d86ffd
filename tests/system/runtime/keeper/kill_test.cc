// SPDX-License-Identifier: Apache-2.0
// kill -9 of keeper processes at random, in pairs, all at once, while containers write.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "holdfast/base/strings.h"
#include "runtime/keeper/common/process_info.h"
#include "tests/system/runtime/keeper/harness.h"

namespace holdfast::runtime::keeper {
namespace {

namespace fs = std::filesystem;

constexpr int kKills = 30;

bool IsRunning(const Subject& subject) {
  pollfd event{subject.pidfd.get(), POLLIN, 0};
  return ::poll(&event, 1, 0) == 0;
}

// Whether a pidfd tells how a process ended that somebody else has reaped: Linux 6.15, asked
// without our own code.
bool KernelTellsExitsByPidfd() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(5);
  const PidFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  ::waitpid(pid, nullptr, 0);
  struct {
    uint64_t mask = 1u << 3;  // PIDFD_INFO_EXIT
    uint64_t cgroup = 0;
    uint32_t ids[11] = {};
    int32_t wait_status = 0;
  } info;
  return ::ioctl(fd.get(), _IOWR(0xFF, 11, info), &info) == 0 && (info.mask & 1u << 3) != 0;
}

// This thread, and what it starts, in a network namespace that is not the first: there the kernel
// tells no process events.
class OtherNetworkNamespace {
 public:
  OtherNetworkNamespace() : first_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    EXPECT_EQ(::unshare(CLONE_NEWNET), 0) << ::strerror(errno);
  }
  ~OtherNetworkNamespace() { EXPECT_EQ(::setns(first_.get(), CLONE_NEWNET), 0); }
  OtherNetworkNamespace(const OtherNetworkNamespace&) = delete;
  OtherNetworkNamespace& operator=(const OtherNetworkNamespace&) = delete;

 private:
  const UniqueFd first_;
};

// What a container does after the last of its lines. Where holder and logger may be dead at once, only the container has
// its log pipes: what it leaves in them when it ends then is gone with it (docs/keeper.md).
enum class AfterLines : bool { kEnds, kStays };

class KillTest : public KeeperTest {
 protected:
  // Full speed, one line per millisecond, torn lines, silence; one with many rotations.
  void StartSubjects(AfterLines after_lines) {
    const auto add = [&](Subject subject) {
      auto launched = Start(subject);
      ASSERT_TRUE(launched) << launched.error().step << ": " << launched.error().text;
      subjects_.push_back(std::move(subject));
    };
    std::vector<std::string> fast{"/bin/chatter", "lines", "0", "3", "1000000"};
    if (after_lines == AfterLines::kStays) fast.emplace_back("stays");
    add(Make("fast", std::move(fast), 3));
    add(Make("rotating", {"/bin/chatter", "lines", "20", "4"}, 4, 200000));
    add(Make("slow", {"/bin/chatter", "lines", "1000", "5"}, 5));
    add(Make("torn", {"/bin/chatter", "pieces", "300", "6"}, 6));
    add(Make("silent", {"/bin/chatter", "sleep", "9"}, 9));
  }

  // Kills, waits a random moment, and now and then starts a short container in the middle of it.
  void KillAtRandom(const std::vector<std::string>& commands) {
    std::mt19937 random(std::random_device{}());
    for (int i = 0; i < kKills; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
      for (const std::string& command : commands) KillAll(command);
      if (i % 5 == 0) {
        Subject brief = Make(StrCat("brief", i), {"/bin/chatter", "exit", StrCat(i + 1)}, i + 1);
        auto launched = Start(brief);
        ASSERT_TRUE(launched) << launched.error().step << ": " << launched.error().text;
        brief_.push_back(std::move(brief));
      }
      if (i % 3 == 0) WaitForKeeper();
    }
    WaitForKeeper();
  }

  // `may_lose_codes`: nobody of ours could wait, so only PIDFD_GET_INFO could still tell.
  void ExpectAllWell(bool may_lose_codes, AfterLines after_lines) {
    const auto check = [&](const Subject& subject, const model::ExitReport& report) {
      if (may_lose_codes && report.source == model::ExitReport::Source::kLost) return;
      EXPECT_EQ(report.exit_code, subject.exit_code) << subject.id;
    };
    for (Subject& subject : subjects_) {
      if (subject.id.starts_with("fast") && after_lines == AfterLines::kEnds) continue;
      EXPECT_TRUE(IsRunning(subject)) << subject.id << " died";
    }
    for (Subject& brief : brief_) check(brief, WaitExit(brief));
    for (Subject& subject : subjects_) {
      // The first one writes all its lines.
      const bool fast = subject.id.starts_with("fast");
      const bool by_itself = fast && after_lines == AfterLines::kEnds;
      check(subject, by_itself ? WaitExit(subject) : Stop(subject));
      auto drained = client().WaitLogDrained(ContainerId(subject.id), kPatience);
      EXPECT_TRUE(drained) << drained.error().message();
      const size_t lines = ExpectComplete(subject);
      EXPECT_TRUE(!fast || lines == 1100000u) << lines;
    }
    for (const Subject& subject : subjects_) Clean(subject);
    for (const Subject& subject : brief_) Clean(subject);
    ExpectNothingLeft();
    // A launcher looks at what it keeps of processes that are over at its next tick.
    std::map<std::string, size_t> counts;
    EXPECT_TRUE(Eventually([&] {
      counts = DescriptorCounts();
      return std::ranges::all_of(counts,
                                 [](const auto& each) { return each.second <= kIdleDescriptors; });
    })) << testing::PrintToString(counts);
  }

  void RunKills(const std::vector<std::string>& commands, bool may_lose_codes,
                AfterLines after_lines = AfterLines::kEnds) {
    StartHolder();
    ASSERT_NO_FATAL_FAILURE(StartSubjects(after_lines));
    ASSERT_NO_FATAL_FAILURE(KillAtRandom(commands));
    ExpectAllWell(may_lose_codes, after_lines);
  }

  std::vector<Subject> subjects_;
  std::vector<Subject> brief_;
};

TEST_F(KillTest, NoKillAtAllIsTheBaseline) { RunKills({}, false); }
TEST_F(KillTest, HolderAtRandom) { RunKills({"hold"}, false); }
TEST_F(KillTest, LauncherAtRandom) { RunKills({"launch"}, false); }
TEST_F(KillTest, LoggerAtRandom) { RunKills({"log"}, false); }
TEST_F(KillTest, HolderAndLauncher) { RunKills({"hold", "launch"}, true); }
TEST_F(KillTest, HolderAndLogger) { RunKills({"hold", "log"}, false, AfterLines::kStays); }
TEST_F(KillTest, LauncherAndLogger) { RunKills({"launch", "log"}, false); }

// Each died alone, but now nobody of ours is left who could wait for the container.
TEST_F(KillTest, LauncherThenHolderKeepTheExitCode) {
  StartHolder();
  Subject one = Make("one", {"/bin/chatter", "sleep", "9"}, 9);
  Subject killed = Make("killed", {"/bin/chatter", "sleep", "9"}, 128 + SIGKILL);
  for (Subject* subject : {&one, &killed}) {
    auto launched = Start(*subject);
    ASSERT_TRUE(launched) << launched.error().step << ": " << launched.error().text;
  }
  for (const char* first : {"launch", "hold", "launch", "hold"}) {
    WaitForKeeper();
    KillAll(first);
  }
  WaitForKeeper();
  ::syscall(SYS_pidfd_send_signal, killed.pidfd.get(), SIGKILL, nullptr, 0);
  for (Subject* subject : {&one, &killed}) {
    const model::ExitReport report = subject == &one ? Stop(one) : WaitExit(killed);
    EXPECT_EQ(report.exit_code, subject->exit_code) << subject->id;
    EXPECT_NE(report.source, model::ExitReport::Source::kLost);
    EXPECT_NE(report.source, model::ExitReport::Source::kWaited) << "so there was no orphan";
    EXPECT_TRUE(client().WaitLogDrained(ContainerId(subject->id), kPatience));
    Clean(*subject);
  }
  ExpectNothingLeft();
}

// Nobody of ours waits for the container, and nobody is told of its end.
TEST_F(KillTest, AnOrphansExitCodeIsAskedOfItsPidfd) {
  if (!KernelTellsExitsByPidfd()) GTEST_SKIP() << "kernel lacks PIDFD_INFO_EXIT";
  const OtherNetworkNamespace elsewhere;
  StartHolder();
  Subject one = Make("one", {"/bin/chatter", "sleep", "9"}, 9);
  Subject killed = Make("killed", {"/bin/chatter", "sleep", "9"}, 128 + SIGKILL);
  for (Subject* subject : {&one, &killed}) {
    auto launched = Start(*subject);
    ASSERT_TRUE(launched) << launched.error().step << ": " << launched.error().text;
  }
  WaitForKeeper();
  for (const char* role : {"hold", "launch"}) KillAll(role);
  WaitForKeeper();
  ::syscall(SYS_pidfd_send_signal, killed.pidfd.get(), SIGKILL, nullptr, 0);
  for (Subject* subject : {&one, &killed}) {
    const model::ExitReport report = subject == &one ? Stop(one) : WaitExit(killed);
    EXPECT_EQ(report.source, model::ExitReport::Source::kPidfdInfo) << subject->id;
    EXPECT_EQ(report.exit_code, subject->exit_code) << subject->id;
    EXPECT_TRUE(client().WaitLogDrained(ContainerId(subject->id), kPatience));
    Clean(*subject);
  }
  ExpectNothingLeft();
}

// Containers that are below PID 1 (here the test, which reaps them), in a namespace where nobody is
// told of their end; and a client that has no pidfds of them.
class OrphanTest : public KillTest {
 protected:
  void SetUp() override {
    if (!KernelTellsExitsByPidfd()) GTEST_SKIP() << "kernel lacks PIDFD_INFO_EXIT";
    elsewhere_.emplace();
    KillTest::SetUp();
  }

  void StartOrphans(int how_many) {
    StartHolder();
    for (int i = 0; i < how_many; ++i) {
      Subject subject = Make(StrCat("orphan", i), {"/bin/chatter", "sleep", StrCat(i + 1)}, i + 1);
      auto launched = Start(subject);
      ASSERT_TRUE(launched) << launched.error().step << ": " << launched.error().text;
      subjects_.push_back(std::move(subject));
    }
    for (const char* role : {"launch", "hold", "launch", "hold"}) {
      WaitForKeeper();
      KillAll(role);
    }
    WaitForKeeper();
  }

  // Until it is reaped; then its pidfd here is closed.
  static void ExpectEnds(Subject& subject) {
    const StartRecord& start = subject.start;
    EXPECT_TRUE(Eventually([&] {
      ::syscall(SYS_pidfd_send_signal, subject.pidfd.get(), SIGTERM, nullptr, 0);
      ::waitpid(start.pid, nullptr, WNOHANG);
      return !ProcessExists(start.pid, start.start_ticks);
    })) << subject.id;
    subject.pidfd.Reset();
  }

  model::ExitReport WaitExitWithoutPidfd(const Subject& subject) {
    const model::ExitReport report = WaitExit(subject);
    EXPECT_NE(report.source, model::ExitReport::Source::kLost) << subject.id;
    return report;
  }

  void CleanAll() {
    for (const Subject& subject : subjects_) Clean(subject);
    ExpectNothingLeft();
  }

  std::optional<OtherNetworkNamespace> elsewhere_;
};

// An agent that starts after the end of an orphan has no pidfd of it, but the holder has.
TEST_F(OrphanTest, TheHolderIsAskedWhatItHasYetToSettle) {
  ASSERT_NO_FATAL_FAILURE(StartOrphans(20));
  for (Subject& subject : subjects_) {
    ExpectEnds(subject);
    // At once, as its pidfd in the holder has hardly been looked at.
    EXPECT_EQ(WaitExitWithoutPidfd(subject).exit_code, subject.exit_code) << subject.id;
  }
  CleanAll();
}

// Nobody who does not answer says that the code is lost.
TEST_F(OrphanTest, AHolderThatDoesNotAnswerIsWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(StartOrphans(1));
  Subject& subject = subjects_.front();
  const pid_t holder = Processes("hold").at(0);
  ::kill(holder, SIGSTOP);
  ExpectEnds(subject);
  const auto exit = client().FindExit(subject.start);
  ::kill(holder, SIGCONT);
  EXPECT_TRUE(exit && !*exit);
  EXPECT_EQ(WaitExitWithoutPidfd(subject).exit_code, subject.exit_code);
  CleanAll();
}

// Agent and holder die at once, and an orphan ends before there is a new holder: the launcher, which
// lives, has its pidfd.
TEST_F(OrphanTest, TheLauncherKnowsWhatEndedWithoutAHolder) {
  ASSERT_NO_FATAL_FAILURE(StartOrphans(3));
  StopTending();
  KillAll("hold");
  for (Subject& subject : subjects_) ExpectEnds(subject);
  StartHolder();
  WaitForKeeper();
  for (Subject& subject : subjects_) {
    EXPECT_EQ(WaitExitWithoutPidfd(subject).exit_code, subject.exit_code) << subject.id;
  }
  CleanAll();
}

// Launcher and holder die at once, before "go": what has not begun is no container that
// ended. It begins, once, when the launch is asked for again, as the client does by itself.
TEST_F(KillTest, ALaunchThatWasCutShortIsNoExit) {
  StartHolder({{"HOLDFAST_PAUSE_AT", "launcher.after-start-record"},
               {"HOLDFAST_PAUSE_DIR", Path("pause")}});
  WaitForKeeper();
  Subject one = Make("one", {"/bin/chatter", "exit", "9"}, 9);
  auto starting = std::async(std::launch::async, [&] { return Start(one); });
  const pid_t launcher = Processes("launch").at(0);
  ASSERT_TRUE(Eventually([&] { return !fs::is_empty(Path("pause")); }));
  const auto record = client().FindStart(one.id);
  ASSERT_TRUE(record && *record);
  const StartRecord cut_short = **record;
  StopTending();
  KillAll("hold");
  Kill(launcher);
  EXPECT_TRUE(Eventually([&] {
    ::waitpid(cut_short.pid, nullptr, WNOHANG);
    return !ProcessExists(cut_short.pid, cut_short.start_ticks);
  }));
  const auto begun = client().HasBegun(cut_short);
  EXPECT_TRUE(begun && !*begun);
  const auto exit = client().FindExit(cut_short);
  EXPECT_TRUE(exit && !*exit);
  StartHolder();
  const auto launched = starting.get();
  ASSERT_TRUE(launched) << launched.error().step << ": " << launched.error().text;
  const model::ExitReport report = WaitExit(one);
  EXPECT_NE(report.source, model::ExitReport::Source::kLost);
  EXPECT_EQ(report.exit_code, 9);
  EXPECT_NE(one.start.pid, cut_short.pid);
  Clean(one);
  ExpectNothingLeft();
}

TEST_F(KillTest, AllAtOnce) { RunKills({"hold", "launch", "log"}, true, AfterLines::kStays); }

}  // namespace
}  // namespace holdfast::runtime::keeper
