// SPDX-License-Identifier: Apache-2.0
// Kill -9 exactly at every pause point of holder, launcher and logger. The points are not listed
// here: a first run without kills collects the names that a full life of containers passes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/plan/wire.h"
#include "tests/system/runtime/keeper/harness.h"

namespace holdfast::runtime::keeper {
namespace {

namespace fs = std::filesystem;

class PauseTest : public KeeperTest {
 protected:
  // Everything the keeper does: sandbox, launch, lines, rotation, a terminal, a failed launch,
  // exits, removal.
  void LiveAndDie() {
    MakeAndDropSandbox();
    MakeAndTakeMember();
    std::array<Subject, 3> subjects{
        Make("lines", {"/bin/chatter", "lines", "100", "3", "3000"}, 3, 60000),
        Make("pieces", {"/bin/chatter", "pieces", "1000", "4"}, 4),
        Make("brief", {"/bin/chatter", "exit", "5"}, 5)};
    for (Subject& subject : subjects) {
      auto launched = Start(subject);
      ASSERT_TRUE(launched) << launched.error().step << ": " << launched.error().text;
    }
    Subject terminal = Make("terminal", {"/bin/chatter", "lines", "100", "6", "200"}, 6);
    auto opened = StartWithTerminal(terminal);
    ASSERT_TRUE(opened) << opened.error().step << ": " << opened.error().text;
    opened->pty_master.Reset();
    Subject broken = Make("broken", {"/bin/nothing"}, 0);
    auto failed = Start(broken);
    ASSERT_FALSE(failed);
    EXPECT_TRUE(failed.error().exec_failed) << failed.error().step << ": " << failed.error().text;
    EXPECT_EQ(failed.error().sys_errno, ENOENT);
    EXPECT_TRUE(client().UnregisterLog(ContainerId(broken.id)));
    EXPECT_TRUE(client().RotateLog(ContainerId(subjects[1].id)));
    for (Subject& subject : subjects) {
      const bool by_itself = !subject.id.starts_with("pieces");
      const model::ExitReport report = by_itself ? WaitExit(subject) : Stop(subject);
      EXPECT_EQ(report.exit_code, subject.exit_code) << subject.id;
      EXPECT_TRUE(client().WaitLogDrained(ContainerId(subject.id), kPatience));
      const size_t lines = ExpectComplete(subject);
      if (subject.id.starts_with("lines")) {
        EXPECT_EQ(lines, 3300u);
      }
      Clean(subject);
    }
    EXPECT_EQ(WaitExit(terminal).exit_code, terminal.exit_code);
    EXPECT_TRUE(client().WaitLogDrained(ContainerId(terminal.id), kPatience));
    EXPECT_EQ(ExpectTerminalComplete(terminal), 200u);
    Clean(terminal);
  }

  void MakeAndDropSandbox() {
    model::SandboxPlan plan;
    plan.hostname = "pod";
    auto memfd = sys::SealedMemfd("plan", SerializePlan(model::Plan(plan)));
    ASSERT_TRUE(memfd);
    const PodUid uid("sandbox");
    auto made = client().MakeSandbox(uid, memfd->get());
    ASSERT_TRUE(made) << made.error().step << ": " << made.error().text;
    EXPECT_EQ(made->size(), 3u);
    auto got = client().GetSandbox(uid);
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_EQ(got->size(), 3u);
    EXPECT_TRUE(client().DropSandbox(uid));
    EXPECT_EQ(client().GetSandbox(uid).error().code(), Code::kNotFound);
  }

  // Whoever dies on the way, what the pod gets is the member.
  void MakeAndTakeMember() {
    auto memfd = sys::SealedMemfd("plan", SerializePlan(model::Plan(model::SandboxPlan())));
    ASSERT_TRUE(memfd);
    auto made = client().MakeMember("member", memfd->get());
    ASSERT_TRUE(made) << made.error().step << ": " << made.error().text;
    ASSERT_EQ(made->size(), 3u);
    const PodUid uid("taker");
    auto taken = client().BeginSandbox(uid, memfd->get(), {}, "member").Await();
    ASSERT_TRUE(taken) << taken.error().step << ": " << taken.error().text;
    EXPECT_EQ(InodesOf(*taken), InodesOf(*made));
    auto got = client().GetSandbox(uid);
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_EQ(InodesOf(*got), InodesOf(*made));
    EXPECT_TRUE(client().DropMember("member"));
    EXPECT_TRUE(client().GetSandbox(uid)) << "its keys are the pod's";
    EXPECT_TRUE(client().DropSandbox(uid));
    EXPECT_TRUE(Eventually([this] { return client().ListMembers()->empty(); }));
  }

  static std::map<std::string, ino_t> InodesOf(const std::vector<KeptFd>& kept) {
    std::map<std::string, ino_t> inodes;
    for (const KeptFd& one : kept) {
      struct stat st{};
      EXPECT_EQ(::fstat(one.fd.get(), &st), 0);
      inodes[one.key] = st.st_ino;
    }
    return inodes;
  }

  std::map<std::string, std::string> Armed(const std::string& point) const {
    return {{"HOLDFAST_PAUSE_AT", point}, {"HOLDFAST_PAUSE_DIR", Path("pause")}};
  }

  std::set<std::string> PassedPoints() {
    std::set<std::string> points;
    for (const auto& entry : fs::directory_iterator(Path("pause"))) {
      std::ifstream in(entry.path());
      for (std::string name; std::getline(in, name);) {
        // The recipe's points lie in the child, which is the container's, not the keeper's.
        for (const char* ours : {"keeper.", "holder.", "launcher.", "logger.", "log."}) {
          if (name.starts_with(ours)) points.insert(name);
        }
      }
    }
    return points;
  }

  // Kills the first process that stops at a pause point, lets its successors go on. Runs until
  // told.
  void Attend(const std::atomic<bool>& stop) {
    std::set<std::string> seen;
    while (!stop) {
      for (const auto& entry : fs::directory_iterator(Path("pause"))) {
        const std::string name = entry.path().filename();
        if (!seen.insert(name).second) continue;
        const auto pid = static_cast<pid_t>(std::stol(name.substr(name.rfind('.') + 1)));
        WaitStopped(pid);
        if (seen.size() == 1) {
          ++kills_;
          ::kill(pid, SIGKILL);
        } else {
          ::kill(pid, SIGCONT);
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // The file appears just before the process stops itself; continued too early, it would stop for
  // ever.
  static void WaitStopped(pid_t pid) {
    for (int i = 0; i < 30000; ++i) {
      std::ifstream in(StrCat("/proc/", pid, "/stat"));
      std::string text;
      std::getline(in, text);
      const size_t at = text.rfind(") ");
      if (at == std::string::npos || text[at + 2] == 'T') return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::atomic<int> kills_{0};
};

TEST_F(PauseTest, KilledAtEveryPoint) {
  StartHolder(Armed("?"));
  ASSERT_NO_FATAL_FAILURE(LiveAndDie());
  ExpectNothingLeft();
  const std::set<std::string> points = PassedPoints();
  EXPECT_GE(points.size(), 15u);
  for (const std::string& point : points) {
    for (const int passage : {1, 3}) {
      TearDown();
      SetUp();
      SCOPED_TRACE(StrCat(point, ":", passage));
      std::atomic<bool> stop{false};
      std::thread attendant([&] { Attend(stop); });
      StartHolder(Armed(StrCat(point, ":", passage)));
      LiveAndDie();
      ExpectNothingLeft();
      stop = true;
      attendant.join();
      if (passage == 1) {
        EXPECT_GE(kills_.exchange(0), 1) << "nothing stopped there";
      }
      if (HasFatalFailure()) return;
    }
  }
  RecordProperty("points", static_cast<int>(points.size()));
}

// Nobody asks for its lines but the logger, and when its program has filled the terminal it stands still.
TEST_F(PauseTest, ATerminalThatIsMadeWhileTheLoggerComesBackIsRead) {
  fs::create_directories(Path("pause/armed"));
  StartHolder(Armed("@"));
  Subject terminal = Make("terminal", {"/bin/chatter", "lines", "100", "6", "200"}, 6);
  ASSERT_TRUE(client().RegisterTtyLog(ContainerId(terminal.id), terminal.log));
  std::ofstream(Path("pause/armed/logger.copied")).close();
  KillAll("log");
  pid_t stopped = 0;
  ASSERT_TRUE(Eventually([&] {
    for (const auto& entry : fs::directory_iterator(Path("pause"))) {
      const std::string name = entry.path().filename();
      if (name.starts_with("logger.copied.")) stopped = std::stoi(name.substr(name.rfind('.') + 1));
    }
    return stopped != 0;
  }));
  auto opened = LaunchWithTerminal(terminal);
  WaitStopped(stopped);
  ::kill(stopped, SIGCONT);
  ASSERT_TRUE(opened) << opened.error().step << ": " << opened.error().text;
  opened->pty_master.Reset();
  EXPECT_EQ(WaitExit(terminal).exit_code, terminal.exit_code);
  EXPECT_TRUE(client().WaitLogDrained(ContainerId(terminal.id), kPatience));
  EXPECT_EQ(ExpectTerminalComplete(terminal), 200u);
  Clean(terminal);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace holdfast::runtime::keeper
