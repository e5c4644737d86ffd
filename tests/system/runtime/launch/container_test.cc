// SPDX-License-Identifier: Apache-2.0
#include <linux/seccomp.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "holdfast/sys/process.h"
#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using ContainerTest = LaunchTest;
using State = LaunchOutcome::State;

TEST_F(ContainerTest, RunsWithItsOwnNamespacesAndNoInheritedDescriptor) {
  const RunResult run = Run(BasePlan({"probe", "facts"}));
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.exit.code, 0);
  EXPECT_EQ(run.Fact("pid"), "1");
  EXPECT_EQ(run.Fact("fds"), "0 1 2");
  EXPECT_EQ(run.Fact("cwd"), "/");
  EXPECT_EQ(run.Fact("sid"), "own");
  for (const char* name : {"mnt", "pid", "cgroup"}) {
    const std::string own = std::filesystem::read_symlink(std::string("/proc/self/ns/") + name);
    EXPECT_NE(run.Fact(std::string("ns.") + name), own) << name;
  }
  const std::string host_net = std::filesystem::read_symlink("/proc/self/ns/net");
  EXPECT_EQ(run.Fact("ns.net"), host_net);
}

TEST_F(ContainerTest, NothingOfTheLaunchersStateIsInherited) {
  // Of whoever started the launcher, by the time that it begins.
  ::signal(SIGUSR1, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGRTMAX, SIG_IGN);
  ::personality(ADDR_NO_RANDOMIZE);
  ::prctl(PR_SET_TIMERSLACK, 2'000'000);
  ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  auto context = MakeLaunchContext();
  ASSERT_TRUE(context) << context.error().message();
  context_ = std::move(*context);
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  const mode_t old_mask = ::umask(0077);
  const RunResult ordinary = Run(BasePlan({"probe", "facts"}));
  ::setpriority(PRIO_PROCESS, 0, 5);
  sys::PreferShortSlices();  // as the launcher does
  const RunResult run = Run(BasePlan({"probe", "facts"}));
  EXPECT_TRUE(sys::ResetScheduling());
  ::umask(old_mask);
  ::sigprocmask(SIG_UNBLOCK, &blocked, nullptr);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.Fact("SigBlk"), "0000000000000000");
  EXPECT_EQ(run.Fact("SigIgn"), "0000000000000000");
  EXPECT_EQ(run.Fact("Umask"), "0022");
  EXPECT_EQ(run.Fact("nice"), "0");
  EXPECT_EQ(run.Fact("policy"), "0");
  EXPECT_EQ(run.Fact("policy-flags"), "0");
  EXPECT_EQ(run.Fact("slice"), ordinary.Fact("slice"));
  EXPECT_EQ(run.Fact("personality"), "0");
  EXPECT_EQ(run.Fact("timer-slack"), "50000");
  EXPECT_EQ(run.Fact("huge-pages-off"), "0");
}

// PR-02: the golden table of capability sets.
TEST_F(ContainerTest, CapabilitySetsAreExactlyThePlans) {
  const struct {
    const char* name;
    uint32_t uid;
    uint64_t capabilities;
    const char* permitted;
    const char* bounding;
  } rows[] = {
      {"root, default", 0, 0xa80425fb, "00000000a80425fb", "00000000a80425fb"},
      {"user, default", 1000, 0xa80425fb, "0000000000000000", "00000000a80425fb"},
      {"root, none", 0, 0, "0000000000000000", "0000000000000000"},
      {"user, none", 1000, 0, "0000000000000000", "0000000000000000"},
      {"root, NET_ADMIN", 0, 1 << 12, "0000000000001000", "0000000000001000"},
  };
  for (const bool no_new_privs : {false, true}) {
    for (const auto& row : rows) {
      model::LaunchPlan plan = BasePlan({"/bin/probe", "facts"});
      plan.process.uid = row.uid;
      plan.process.gid = row.uid;
      plan.process.no_new_privs = no_new_privs;
      plan.process.capabilities.bounding = row.capabilities;
      plan.process.capabilities.effective = row.capabilities;
      plan.process.capabilities.permitted = row.capabilities;
      plan.process.seccomp.program = {
          {0x06, 0, 0, 0x7fff0000}};  // RET ALLOW: loading it is what counts
      const RunResult run = Run(plan);
      ASSERT_EQ(run.outcome.state, State::kRunning) << row.name << ' ' << Why(run);
      EXPECT_EQ(run.Fact("CapPrm"), row.permitted) << row.name;
      EXPECT_EQ(run.Fact("CapEff"), row.permitted) << row.name;
      EXPECT_EQ(run.Fact("CapBnd"), row.bounding) << row.name;
      EXPECT_EQ(run.Fact("CapInh"), "0000000000000000") << row.name;
      EXPECT_EQ(run.Fact("CapAmb"), "0000000000000000") << row.name;
      EXPECT_EQ(run.Fact("NoNewPrivs"), no_new_privs ? "1" : "0") << row.name;
      EXPECT_EQ(run.Fact("Seccomp"), "2") << row.name;
    }
  }
}

// How the only filter of a process was loaded (SPEC_ALLOW, which changes the process, is not told).
uint64_t FlagsOfFilter(pid_t pid) {
  EXPECT_EQ(::ptrace(PTRACE_SEIZE, pid, 0, 0), 0) << std::strerror(errno);
  EXPECT_EQ(::ptrace(PTRACE_INTERRUPT, pid, 0, 0), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, __WALL), pid);
  __ptrace_seccomp_metadata filter{};
  EXPECT_GT(::ptrace(PTRACE_SECCOMP_GET_METADATA, pid, sizeof filter, &filter), 0)
      << std::strerror(errno);
  EXPECT_EQ(::ptrace(PTRACE_DETACH, pid, 0, 0), 0);
  return filter.flags;
}

TEST_F(ContainerTest, AFilterIsLoadedAsItsFlagsSay) {
  for (const bool log : {false, true}) {
    model::LaunchPlan plan = BasePlan({"probe", "sleep"});
    plan.process.seccomp = {{{0x06, 0, 0, 0x7fff0000}}, log, !log};
    Running running = Start(plan);
    ASSERT_EQ(running.outcome.state, State::kRunning);
    EXPECT_EQ(FlagsOfFilter(running.launch->pid()), log ? SECCOMP_FILTER_FLAG_LOG : 0);
    ASSERT_TRUE(sys::SendSignal(running.launch->pidfd(), SIGKILL));
    EXPECT_EQ(Reap(*running.launch).ShellCode(), 137);
  }
}

TEST_F(ContainerTest, IdentityEnvironmentAndLimitsAreThePlans) {
  model::LaunchPlan plan = BasePlan({"probe", "facts"});
  plan.process.uid = 1234;
  plan.process.gid = 2345;
  plan.process.groups = {2345, 77, 78};
  plan.process.env = {"PATH=/bin", "A=1", "EMPTY="};
  plan.process.cwd = "/made/by/us";
  plan.process.rlimits = {{RLIMIT_NOFILE, 111, 222}, {RLIMIT_CORE, 0, 0}};
  plan.process.oom_score_adj = 321;
  plan.process.umask = 027;
  const RunResult run = Run(plan);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.Fact("uid"), "1234");
  EXPECT_EQ(run.Fact("gid"), "2345");
  EXPECT_EQ(run.Fact("groups"), "77 78 2345");
  EXPECT_EQ(run.Fact("cwd"), "/made/by/us");
  EXPECT_EQ(run.Fact("rlimit.nofile"), "111 222");
  EXPECT_EQ(run.Fact("rlimit.core"), "0 0");
  EXPECT_EQ(run.Fact("oom"), "321");
  EXPECT_EQ(run.Fact("Umask"), "0027");
  std::set<std::string> env;
  std::istringstream lines(run.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("env ")) env.insert(line.substr(4));
  }
  EXPECT_EQ(env, (std::set<std::string>{"PATH=/bin", "A=1", "EMPTY="}));
  EXPECT_TRUE(run.outcome.warnings.empty()) << run.outcome.warnings[0];
}

TEST_F(ContainerTest, TightLimitsBindTheContainerAndNotItsStart) {
  model::LaunchPlan plan = BasePlan({"probe", "facts"});
  plan.process.rlimits = {{RLIMIT_NOFILE, 6, 6}, {RLIMIT_FSIZE, 0, 0}, {RLIMIT_NPROC, 1, 1}};
  const RunResult run = Run(plan);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.Fact("rlimit.nofile"), "6 6");
}

TEST_F(ContainerTest, WhatTheHostMayNotGiveDegradesWithAWarning) {
  if (context_.facts.cap_sys_resource) GTEST_SKIP() << "this host has CAP_SYS_RESOURCE";
  model::LaunchPlan plan = BasePlan({"probe", "facts"});
  plan.process.rlimits = {{RLIMIT_NOFILE, 1024, 1ull << 40}};
  plan.process.oom_score_adj = -998;
  const RunResult run = Run(plan);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  ASSERT_EQ(run.outcome.warnings.size(), 2u);
  EXPECT_NE(run.outcome.warnings[0].find("oom_score_adj -998"), std::string::npos);
  EXPECT_NE(run.outcome.warnings[1].find("hard limit"), std::string::npos);
  EXPECT_EQ(run.Fact("rlimit.nofile"), "1024 " + std::to_string(context_.facts.max_open_files));
}

TEST_F(ContainerTest, StandardMountsMasksAndDevicesAreInPlace) {
  const RunResult mounts = Run(BasePlan({"probe", "mounts"}));
  ASSERT_EQ(mounts.outcome.state, State::kRunning) << Why(mounts);
  for (const char* expected :
       {" /proc rw,nosuid,nodev,noexec", " /dev rw,nosuid", " /dev/pts rw,nosuid,noexec",
        " /dev/mqueue rw,nosuid,nodev,noexec", " /sys ro,nosuid,nodev,noexec", " /proc/sys ro",
        " /proc/timer_list "}) {
    EXPECT_NE(mounts.output.find(expected), std::string::npos) << expected << '\n' << mounts.output;
  }
  EXPECT_EQ(mounts.output.find(directory_ + "/image/bin"), std::string::npos);

  const RunResult nodes =
      Run(BasePlan({"probe", "stat", "/dev/null", "/dev/zero", "/dev/tty", "/dev/fd", "/dev/ptmx",
                    "/dev/pts/ptmx", "/proc/timer_list", "/sys/firmware"}));
  EXPECT_NE(nodes.output.find("/dev/null char 1:3 666"), std::string::npos) << nodes.output;
  EXPECT_NE(nodes.output.find("/dev/pts/ptmx char 5:2 666"), std::string::npos) << nodes.output;
  EXPECT_NE(nodes.output.find("/proc/timer_list char 1:3"), std::string::npos) << nodes.output;
  EXPECT_NE(nodes.output.find("/dev/ptmx link"), std::string::npos) << nodes.output;

  const RunResult writes = Run(BasePlan({"probe", "write", "/proc/sys/kernel/core_pattern", "x"}));
  EXPECT_NE(writes.output.find("Read-only file system"), std::string::npos) << writes.output;
}

TEST_F(ContainerTest, AReadOnlyRootIsReadOnlyButItsVolumesAreNot) {
  model::LaunchPlan plan = BasePlan({"probe", "write", "/file", "x"});
  plan.root.read_only = true;
  EXPECT_NE(Run(plan).output.find("Read-only file system"), std::string::npos);

  plan = BasePlan({"probe", "write", "/made/here/file", "x"});
  plan.root.read_only = true;
  model::MountPlan volume;
  volume.source = AddTree(Path("volume"));
  volume.destination = "/made/here";
  plan.mounts.push_back(volume);
  const RunResult run = Run(plan);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_NE(run.output.find("written"), std::string::npos) << run.output;
  EXPECT_TRUE(std::filesystem::exists(Path("volume/file")));
}

TEST_F(ContainerTest, WritesGoToTheUpperLayerAndTheHostSeesNoMount) {
  const std::string before = *sys::ReadFileAt(AT_FDCWD, "/proc/self/mountinfo", 1 << 20);
  const RunResult run = Run(BasePlan({"probe", "write", "/file", "x"}));
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_TRUE(std::filesystem::exists(Path("scratch/upper/file")));
  EXPECT_FALSE(std::filesystem::exists(Path("image/file")));
  EXPECT_EQ(*sys::ReadFileAt(AT_FDCWD, "/proc/self/mountinfo", 1 << 20), before);
}

TEST_F(ContainerTest, AWorkingDirectoryThatIsMissingIsMadeForRoot) {
  std::filesystem::create_directory(Path("image/home"));
  std::filesystem::permissions(Path("image/home"), std::filesystem::perms::all);
  std::filesystem::create_symlink("home", Path("image/link"));
  for (const auto& [wanted, made] : std::vector<std::pair<std::string, std::string>>{
           {"/not/there", "/not/there"}, {"/home/app", "/home/app"}, {"/link/by", "/home/by"}}) {
    model::LaunchPlan plan = BasePlan({"/bin/probe", "facts"});
    plan.process.cwd = wanted;
    plan.process.uid = plan.process.gid = 1000;
    const RunResult run = Run(std::move(plan));
    ASSERT_EQ(run.outcome.state, State::kRunning) << wanted << ": " << Why(run);
    EXPECT_EQ(run.Fact("cwd"), made);
    EXPECT_FALSE(std::filesystem::exists(Path("image" + made))) << "the image stays as it is";
    for (std::filesystem::path path = made; path != "/" && path != "/home";
         path = path.parent_path()) {
      struct stat st{};
      ASSERT_EQ(::lstat(Path("scratch/upper" + path.string()).c_str(), &st), 0) << path;
      EXPECT_EQ(st.st_mode, mode_t{S_IFDIR | 0755}) << path;
      EXPECT_EQ(st.st_uid, 0u) << path;
      EXPECT_EQ(st.st_gid, 0u) << path;
    }
    for (const char* name : {"scratch/upper", "scratch/work"}) {
      std::filesystem::remove_all(Path(name));
    }
  }
}

TEST_F(ContainerTest, ExitCodesAndSignalsComeThrough) {
  EXPECT_EQ(Run(BasePlan({"probe", "exit", "42"})).exit.ShellCode(), 42);
  Running running = Start(BasePlan({"probe", "sleep"}));
  ASSERT_EQ(running.outcome.state, State::kRunning);
  ASSERT_TRUE(sys::SendSignal(running.launch->pidfd(), SIGKILL).has_value());
  EXPECT_EQ(Reap(*running.launch).ShellCode(), 137);
}

TEST_F(ContainerTest, ACommandThatCannotBeExecutedIsToldApart) {
  WriteFile("image/plain", "text");
  WriteFile("image/bin/broken", "no program");
  ::chmod(Path("image/bin/broken").c_str(), 0755);
  const struct {
    std::string command;
    std::string message;
  } rows[] = {
      {"foo", "exec: \"foo\": executable file not found in $PATH"},
      {"/foo", "exec: \"/foo\": stat /foo: no such file or directory"},
      {"/bin", "exec: \"/bin\": is a directory"},
      {"/plain", "exec: \"/plain\": permission denied"},
      {"/bin/broken", "exec /bin/broken: exec format error"},
  };
  for (const auto& row : rows) {
    const RunResult run = Run(BasePlan({row.command}));
    EXPECT_EQ(run.outcome.state, State::kExecFailed) << row.command;
    EXPECT_EQ(run.outcome.step, "exec");
    ASSERT_TRUE(run.outcome.error.has_value());
    EXPECT_EQ(run.outcome.error->message(), row.message);
  }
}

TEST_F(ContainerTest, AFailingStepNamesItselfAndLeavesNothing) {
  model::LaunchPlan plan = BasePlan({"probe"});
  plan.root.layers = {Path("missing")};
  const RunResult run = Run(plan);
  EXPECT_EQ(run.outcome.state, State::kFailed);
  EXPECT_EQ(run.outcome.step, "overlay root");
  EXPECT_EQ(run.outcome.error->sys_errno(), ENOENT);
  EXPECT_NE(run.exit.code, 0);
}

TEST_F(ContainerTest, WithoutGoTheChildEnds) {
  auto pending = Launch(context_, BasePlan({"probe", "sleep"}), fds_, std::chrono::seconds(10));
  ASSERT_TRUE(pending.has_value()) << pending.error().message();
  EXPECT_GT(pending->start_ticks(), 0u);
  PidFd pidfd = pending->DuplicatePidFd();
  {
    const PendingLaunch dropped = std::move(*pending);
  }
  pollfd event{pidfd.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&event, 1, 10000), 1);
  EXPECT_TRUE(sys::ReapExit(pidfd.get()).has_value());
}

TEST_F(ContainerTest, AChildThatIsKilledBeforeExecIsAFailure) {
  auto pending = Launch(context_, BasePlan({"probe", "sleep"}), fds_, std::chrono::seconds(10));
  ASSERT_TRUE(pending.has_value()) << pending.error().message();
  ASSERT_TRUE(sys::SendSignal(pending->pidfd(), SIGKILL).has_value());
  const LaunchOutcome outcome = pending->Wait();
  EXPECT_EQ(outcome.state, State::kFailed);
  EXPECT_NE(outcome.error->message().find("signal 9"), std::string::npos);
  Reap(*pending);
}

TEST_F(ContainerTest, TheTimeLimitKillsAChildThatDoesNotGetOn) {
  auto pending =
      Launch(context_, BasePlan({"probe", "sleep"}), fds_, std::chrono::milliseconds(300));
  ASSERT_TRUE(pending.has_value()) << pending.error().message();
  const LaunchOutcome outcome = pending->Wait();  // no Go(): it waits for ever
  EXPECT_EQ(outcome.state, State::kFailed);
  EXPECT_EQ(outcome.error->code(), Code::kDeadlineExceeded);
  EXPECT_EQ(Reap(*pending).signal, SIGKILL);
}

TEST_F(ContainerTest, StartsFlatWithThousandsOfOpenDescriptors) {
  std::vector<UniqueFd> ballast;
  for (int i = 0; i < 4000; ++i) {
    auto high = MoveAboveLowFds(Duplicate(context_.null));
    ASSERT_TRUE(high.has_value());
    ballast.push_back(std::move(*high));
  }
  const RunResult run = Run(BasePlan({"probe", "facts"}));
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.Fact("fds"), "0 1 2");
}

}  // namespace
}  // namespace holdfast::runtime
