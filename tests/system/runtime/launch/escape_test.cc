// SPDX-License-Identifier: Apache-2.0
// What a container's process is while it is not yet the program: it looks up paths that the image
// chose, and others of its pod may look at it (security catalogue RT-02, PR-01). HOLDFAST_WHOLE=1
// tries every descriptor from 3 to 1023 in every place, and 10,000 starts and execs.
#include <linux/capability.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <functional>
#include <utility>

#include "holdfast/base/strings.h"
#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using State = LaunchOutcome::State;

constexpr uint64_t kTrace = 1ull << CAP_SYS_PTRACE;

bool Whole() { return ::getenv("HOLDFAST_WHOLE") != nullptr; }

// A process of its own that follows the launched one to its execve and lists what that has open
// there, by the kernel's word. Of its own: a launcher would take the stops of whom it traces for
// ends.
class Tracer {
 public:
  explicit Tracer(pid_t pid) {
    int fds[2];
    EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    reader_.Reset(fds[0]);
    const UniqueFd writer(fds[1]);
    auto cloned = sys::Clone(0);
    EXPECT_TRUE(cloned.has_value());
    if (cloned->pid == 0) Follow(pid, writer.get());
    process_ = std::move(cloned->pidfd);
    char seized = 0;
    EXPECT_EQ(::read(reader_.get(), &seized, 1), 1);
  }
  // Number and name of each descriptor; empty when execve was never reached.
  std::map<int, std::string> Open() {
    std::istringstream lines(*sys::ReadFd(reader_.get(), 1 << 20));
    std::map<int, std::string> open;
    int fd = 0;
    for (std::string name; lines >> fd >> name;) open[fd] = name;
    EXPECT_TRUE(test_support::Eventually([&] {
      auto exit = sys::ReapExit(process_.get());
      return exit && *exit;
    }));
    return open;
  }

 private:
  [[noreturn]] static void Follow(pid_t pid, int report) {
    int status = 0;
    if (::ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) != 0) ::_exit(1);
    if (::ptrace(PTRACE_INTERRUPT, pid, 0, 0) != 0) ::_exit(2);
    if (::waitpid(pid, &status, __WALL) != pid) ::_exit(3);
    ::ptrace(PTRACE_SYSCALL, pid, 0, 0);
    if (::write(report, ".", 1) != 1) ::_exit(4);
    while (::waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
      __ptrace_syscall_info info{};
      ::ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info);
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY &&
          (info.entry.nr == SYS_execve || info.entry.nr == SYS_execveat)) {
        (void)sys::WriteAll(report, List(pid));
        ::ptrace(PTRACE_DETACH, pid, 0, 0);
        ::_exit(0);
      }
      ::ptrace(PTRACE_SYSCALL, pid, 0, 0);
    }
    ::_exit(5);
  }
  static std::string List(pid_t pid) {
    std::string list;
    for (const auto& entry : std::filesystem::directory_iterator(StrCat("/proc/", pid, "/fd"))) {
      list += StrCat(entry.path().filename().string(), " ",
                     std::filesystem::read_symlink(entry.path()).string(), "\n");
    }
    return list;
  }

  UniqueFd reader_;
  PidFd process_;
};

class EscapeTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    if (IsSkipped()) return;
    std::filesystem::create_directory(Path("outside"));
    std::filesystem::copy_file(PROBE_BINARY, Path("outside/only-there"));
    std::filesystem::copy_file(PROBE_BINARY, Path("outside/in-both"));
    WriteFile("outside/secret", "of the node");
    std::filesystem::create_directories(Path("image") + Path("outside"));
    std::filesystem::copy_file(PROBE_BINARY, Path("image") + Path("outside/in-both"));
  }
  void TearDown() override {
    for (Running* running : {&container_, &init_}) Stop(*running);
    LaunchTest::TearDown();
  }

  // A way in which a process comes to be. `make` gives a plan whose program is `argv`.
  struct Way {
    const char* name;
    std::function<model::Plan(std::vector<std::string> argv)> make;
  };

  std::vector<Way> Ways() {
    std::vector<Way> ways = {
        {"start", [this](auto argv) { return model::Plan(BasePlan(argv)); }},
        {"host pid",
         [this](auto argv) {
           model::LaunchPlan plan = BasePlan(argv);
           plan.namespaces.new_pid = false;
           return model::Plan(plan);
         }},
        {"terminal",
         [this](auto argv) {
           model::LaunchPlan plan = BasePlan(argv);
           plan.process.stdio.tty = true;
           return model::Plan(plan);
         }},
        {"exec", [this](auto argv) { return model::Plan(Exec(argv)); }},
        {"exec with a terminal",
         [this](auto argv) {
           model::ExecPlan plan = Exec(argv);
           plan.process.stdio.tty = true;
           return model::Plan(plan);
         }},
        {"shared processes",
         [this](auto argv) {
           model::LaunchPlan plan = BasePlan(argv);
           JoinProcesses(init_.outcome.sandbox, plan);
           return model::Plan(plan);
         }},
    };
    if (users_.user) {
      ways.push_back({"user namespace", [this](auto argv) {
                        model::LaunchPlan plan = BasePlan(argv);
                        MapUsers(users_, plan);
                        return model::Plan(plan);
                      }});
    }
    return ways;
  }

  void StartPods() {
    container_ = Start(BasePlan({"probe", "sleep"}));
    ASSERT_EQ(container_.outcome.state, State::kRunning);
    init_ = StartInit({});
    ASSERT_TRUE(init_.outcome.sandbox.pid);
    if (!context_.facts.user_namespace) return;
    model::SandboxPlan plan;
    plan.uid_map = plan.gid_map = {{0, kBase, 65536}};
    SandboxFds made = MakeSandbox(plan);
    const auto copy = sys::CloneTree(AT_FDCWD, directory_, false);
    // Below 5.19, or on a file system that takes no id map, such a pod does not start at all.
    if (copy && sys::SetIdMap(copy->get(), made.user.get(), false)) users_ = std::move(made);
  }

  Running StartInit(std::vector<model::IdMapEntry> users) {
    model::SandboxPlan plan;
    plan.init_binary = AddFd(UniqueFd(::open(INIT_BINARY, O_RDONLY | O_CLOEXEC)));
    plan.uid_map = plan.gid_map = std::move(users);
    return Start(plan);
  }

  model::ExecPlan Exec(std::vector<std::string> argv) {
    model::ExecPlan plan;
    plan.target = AddFd(UniqueFd(container_.launch->DuplicatePidFd().Release()));
    plan.shares_pid_namespace = false;
    plan.process = BasePlan(std::move(argv)).process;
    return plan;
  }

  void MapUsers(const SandboxFds& pod, model::LaunchPlan& plan) {
    plan.namespaces.user = AddFd(Duplicate(pod.user));
    plan.namespaces.network = AddFd(Duplicate(pod.network));
    plan.namespaces.ipc = AddFd(Duplicate(pod.ipc));
    plan.namespaces.uts = AddFd(Duplicate(pod.uts));
    plan.root.owner = kBase;
    plan.host_devices = AddTree("/dev");
  }

  static model::ProcessPlan& ProcessOf(model::Plan& plan) {
    if (auto* exec = std::get_if<model::ExecPlan>(&plan)) return exec->process;
    return std::get<model::LaunchPlan>(plan).process;
  }

  // Directories of the host among what the launcher is sent, as cgroups, volumes, namespaces are.
  void AddBait() {
    for (int i = 0; i < 4; ++i) {
      AddFd(UniqueFd(::open(Path("outside").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
    }
  }

  // From the directory behind descriptor `fd` to `name` outside, by way of the host's root.
  std::string Climb(int fd, const std::string& name) const {
    return StrCat("/proc/self/fd/", fd, "/../../../../../../../../../..", Path("outside/"), name);
  }

  void ExpectNotStarted(const Way& way, model::Plan plan, const std::string& what) {
    AddBait();
    const RunResult run = Run(std::move(plan));
    EXPECT_NE(run.outcome.state, State::kRunning) << way.name << ": " << what;
    EXPECT_TRUE(run.output.empty()) << way.name << ": " << what << ": " << run.output;
  }

  void FreshScratch() {
    std::filesystem::remove_all(Path("scratch"));
    std::filesystem::create_directory(Path("scratch"));
  }

  Running container_;
  Running init_;
  SandboxFds users_;
};

TEST_F(EscapeTest, NoCommandIsFoundThroughADescriptor) {
  StartPods();
  const int last = Whole() ? 1023 : 40;
  for (const Way& way : Ways()) {
    for (const char* name : {"only-there", "in-both"}) {
      for (int fd = 0; fd <= last; ++fd) {
        ExpectNotStarted(way, way.make({Climb(fd, name), "echo", "escaped"}), Climb(fd, name));
      }
    }
  }
}

TEST_F(EscapeTest, NoCommandIsFoundThroughPath) {
  StartPods();
  for (const Way& way : Ways()) {
    for (const char* name : {"only-there", "in-both"}) {
      std::string path = "PATH=";
      for (int fd = 0; fd <= 1023; ++fd) path += Climb(fd, "") + ":";
      path.pop_back();
      model::Plan plan = way.make({name, "echo", "escaped"});
      ProcessOf(plan).env = {path};
      ExpectNotStarted(way, std::move(plan), path.substr(0, 80));
    }
  }
}

// The kernel itself opens a script's interpreter, at a time when O_CLOEXEC has not yet done
// anything.
TEST_F(EscapeTest, NoInterpreterIsFoundThroughADescriptor) {
  const int last = Whole() ? 1023 : 40;
  for (int fd = 0; fd <= last; ++fd) {
    for (const char* name : {"only-there", "in-both"}) {
      const std::string script = StrCat("image/bin/script-", name, fd);
      WriteFile(script, StrCat("#!", Climb(fd, name), " echo\n"));
      std::filesystem::permissions(Path(script), std::filesystem::perms(0755));
    }
  }
  StartPods();
  for (const Way& way : Ways()) {
    for (const char* name : {"only-there", "in-both"}) {
      for (int fd = 0; fd <= last; ++fd) {
        const std::string script = StrCat("/bin/script-", name, fd);
        ExpectNotStarted(way, way.make({script}), script);
      }
    }
  }
}

TEST_F(EscapeTest, NoWorkingDirectoryIsFoundThroughADescriptor) {
  StartPods();
  const int last = Whole() ? 1023 : 40;
  for (const Way& way : Ways()) {
    for (int fd = 3; fd <= last; ++fd) {
      model::Plan plan = way.make({"./only-there", "echo", "escaped"});
      ProcessOf(plan).cwd = Climb(fd, "");
      ExpectNotStarted(way, std::move(plan), ProcessOf(plan).cwd);
    }
  }
}

// "By the kernel's own word": everything else above looks for one hole at a time.
TEST_F(EscapeTest, AtExecveNothingIsOpenButTheStreamsAndASocket) {
  StartPods();
  for (const Way& way : Ways()) {
    AddBait();
    const model::Plan plan = way.make({"probe", "facts"});
    auto pending = Launch(context_, plan, fds_, std::chrono::seconds(10));
    fds_.clear();
    ASSERT_TRUE(pending.has_value()) << way.name << ": " << pending.error().message();
    std::unique_ptr<Tracer> tracer;
    const auto trace = [&] { tracer = std::make_unique<Tracer>(pending->pid()); };
    pending->OnBirth([&](int) -> Result<void> {
      trace();
      return {};
    });
    if (pending->born()) trace();
    ASSERT_TRUE(pending->Go().has_value());
    const LaunchOutcome outcome = pending->Wait();
    ASSERT_EQ(outcome.state, State::kRunning)
        << way.name << ": " << outcome.step << ": " << outcome.error->message();
    ASSERT_TRUE(tracer) << way.name;
    std::vector<int> numbers;
    for (const auto& [fd, what] : tracer->Open()) {
      numbers.push_back(fd);
      const bool stream = fd <= 2 && !what.starts_with(directory_);
      EXPECT_TRUE(stream || what.starts_with("socket:")) << way.name << ": " << fd << " " << what;
    }
    EXPECT_EQ(numbers, (std::vector<int>{0, 1, 2, 3})) << way.name;
    Reap(*pending);
  }
}

TEST_F(EscapeTest, TheInitOfSharedProcessesHasNothingOfTheHostOpen) {
  model::SandboxPlan plan;
  plan.init_binary = AddFd(UniqueFd(::open(INIT_BINARY, O_RDONLY | O_CLOEXEC)));
  AddBait();
  auto pending = Launch(context_, plan, fds_, std::chrono::seconds(10));
  fds_.clear();
  ASSERT_TRUE(pending.has_value());
  Tracer tracer(pending->pid());
  ASSERT_TRUE(pending->Go().has_value());
  const LaunchOutcome outcome = pending->Wait();
  ASSERT_EQ(outcome.state, State::kRunning) << outcome.step << ": " << outcome.error->message();
  const std::map<int, std::string> open = tracer.Open();
  for (const auto& [fd, what] : open) {
    EXPECT_TRUE(fd <= 2 || what.starts_with("socket:") || what.find("holdfast-init") != what.npos)
        << fd << " " << what;
  }
  EXPECT_EQ(open.size(), 5u);  // the init's own binary, which only execveat(2) uses
  (void)sys::SendSignal(pending->pidfd(), SIGKILL);
  Reap(*pending);
}

// What the stalker (tests/support/probe) found in processes of its pid namespace.
class StalkerTest : public EscapeTest {
 protected:
  // Starts `victims` times what `make` gives while the stalker looks on; its report. Again while it has met none before
  // its birth, for want of a processor: that would show nothing.
  std::map<std::string, int> Stalk(const std::function<model::LaunchPlan()>& stalker,
                                   const std::function<model::Plan()>& make, int victims) {
    std::map<std::string, int> counts;
    for (int round = 0; round < 10 && counts["unborn"] == 0 && !HasFailure(); ++round) {
      for (const auto& [what, count] : StalkOnce(stalker, make, victims)) counts[what] += count;
    }
    return counts;
  }

  std::map<std::string, int> StalkOnce(const std::function<model::LaunchPlan()>& stalker,
                                       const std::function<model::Plan()>& make, int victims) {
    int pipe_fds[2];
    EXPECT_EQ(::pipe2(pipe_fds, O_CLOEXEC), 0);
    const UniqueFd reader(pipe_fds[0]);
    model::LaunchPlan plan = stalker();
    plan.process.stdio.out = AddFd(UniqueFd(pipe_fds[1]));
    plan.process.capabilities.bounding |= kTrace;
    plan.process.capabilities.effective |= kTrace;
    plan.process.capabilities.permitted |= kTrace;
    container_ = Start(plan);
    EXPECT_EQ(container_.outcome.state, State::kRunning)
        << container_.outcome.step << ": "
        << (container_.outcome.error ? container_.outcome.error->message() : "");
    char ready = 0;
    EXPECT_EQ(::read(reader.get(), &ready, 1), 1);
    for (int i = 0; i < victims; ++i) {
      model::Plan victim = make();
      // As capable as the stalker, who therefore could do alone what it makes the victim do.
      model::CapabilityPlan& capabilities = ProcessOf(victim).capabilities;
      capabilities = plan.process.capabilities;
      AddBait();
      const RunResult run = Run(std::move(victim));
      EXPECT_TRUE(run.outcome.state == State::kRunning || run.outcome.error) << i;
    }
    (void)sys::SendSignal(container_.launch->pidfd(), SIGTERM);
    std::map<std::string, int> counts;
    std::istringstream lines(*sys::ReadFd(reader.get(), 16 << 20));
    for (std::string line; std::getline(lines, line);) {
      if (const size_t space = line.find(' '); space != std::string::npos && line[0] != '!') {
        counts[line.substr(0, space)] = std::atoi(line.c_str() + space);
      } else if (line.starts_with("!")) {
        ADD_FAILURE() << line;
      }
    }
    Reap(*container_.launch);
    container_.launch.reset();
    return counts;
  }

  std::vector<std::string> Stalker() const { return {"probe", "stalk", Path("outside/secret")}; }
};

TEST_F(StalkerTest, ATracerInTheContainerGetsNothingOutOfAnExec) {
  const auto counts =
      Stalk([&] { return BasePlan(Stalker()); },
            [&] { return model::Plan(Exec({"probe", "exit", "0"})); }, Whole() ? 10000 : 400);
  EXPECT_GT(counts.at("unborn"),
            0);  // seen before it was the program, so it could have been caught
  EXPECT_EQ(counts.at("excess"), 0);
  EXPECT_EQ(counts.at("opened"), 0);
}

TEST_F(StalkerTest, ATracerGetsNothingOutOfAnExecBehindItsFilter) {
  // Allows everything but says so: "Seccomp: 2" is what the stalker looks for.
  const std::vector<model::BpfInstruction> filter = {{0x06, 0, 0, 0x7fff0000}};
  const auto counts = Stalk(
      [&] {
        model::LaunchPlan plan = BasePlan(Stalker());
        plan.process.seccomp.program = filter;
        return plan;
      },
      [&] {
        model::ExecPlan plan = Exec({"probe", "exit", "0"});
        plan.process.seccomp.program = filter;
        return model::Plan(plan);
      },
      Whole() ? 10000 : 200);
  EXPECT_GT(counts.at("unborn"), 0);
  EXPECT_EQ(counts.at("excess"), 0);
  EXPECT_EQ(counts.at("unfiltered"), 0);
}

TEST_F(StalkerTest, ATracerGetsNothingOutOfTheStartOfAnotherContainerOfItsPod) {
  init_ = StartInit({});
  ASSERT_TRUE(init_.outcome.sandbox.pid);
  const auto in_pod = [&](std::vector<std::string> argv) {
    model::LaunchPlan plan = BasePlan(std::move(argv));
    JoinProcesses(init_.outcome.sandbox, plan);
    return plan;
  };
  const auto counts =
      Stalk([&] { return in_pod(Stalker()); },
            [&] { return model::Plan(in_pod({"probe", "exit", "0"})); }, Whole() ? 10000 : 200);
  EXPECT_GT(counts.at("unborn"), 0);
  EXPECT_EQ(counts.at("excess"), 0);
  EXPECT_EQ(counts.at("opened"), 0);
}

TEST_F(StalkerTest, ATracerInAUserNamespaceGetsNothingEither) {
  StartPods();
  if (!users_.user) GTEST_SKIP() << "kernel lacks id maps for the file system of " << directory_;
  Stop(init_);
  Stop(container_);
  init_ = StartInit({{0, kBase, 65536}});
  ASSERT_TRUE(init_.outcome.sandbox.pid);
  const auto in_pod = [&](std::vector<std::string> argv) {
    model::LaunchPlan plan = BasePlan(std::move(argv));
    MapUsers(init_.outcome.sandbox, plan);
    JoinProcesses(init_.outcome.sandbox, plan);
    return plan;
  };
  const auto started =
      Stalk([&] { return in_pod(Stalker()); },
            [&] { return model::Plan(in_pod({"probe", "exit", "0"})); }, Whole() ? 10000 : 100);
  EXPECT_GT(started.at("unborn"), 0);
  EXPECT_EQ(started.at("excess"), 0);
  EXPECT_EQ(started.at("opened"), 0);
  const auto executed = Stalk([&] { return in_pod(Stalker()); },
                              [&] {
                                model::ExecPlan plan = Exec({"probe", "exit", "0"});
                                plan.join_user = true;
                                return model::Plan(plan);
                              },
                              Whole() ? 10000 : 100);
  EXPECT_GT(executed.at("unborn"), 0);
  EXPECT_EQ(executed.at("excess"), 0);
  EXPECT_EQ(executed.at("opened"), 0);
}

// A profile that would not let the process be put under it in time.
TEST_F(EscapeTest, AProfileThatLeavesAWindowToATracerIsRefused) {
  StartPods();
  // clone (56 on x86-64, 220 on arm64) gives EPERM, the rest is allowed.
  const std::vector<model::BpfInstruction> filter = {
      {0x20, 0, 0, 0}, {0x15, 0, 1, SYS_clone}, {0x06, 0, 0, 0x00050001}, {0x06, 0, 0, 0x7fff0000}};
  model::ExecPlan plan = Exec({"probe", "facts"});
  plan.process.seccomp.program = filter;
  RunResult run = Run(plan);
  EXPECT_EQ(run.outcome.state, State::kRunning) << Why(run);  // nobody there could trace it
  EXPECT_EQ(run.Fact("Seccomp"), "2");

  plan = Exec({"probe", "facts"});
  plan.process.seccomp.program = filter;
  plan.process.capabilities.bounding |= kTrace;
  run = Run(plan);
  EXPECT_EQ(run.outcome.state, State::kFailed);
  EXPECT_EQ(run.outcome.step, "seccomp");
  EXPECT_NE(Why(run).find("the profile refuses clone"), std::string::npos) << Why(run);

  plan = Exec({"probe", "facts"});
  plan.process.seccomp.program = filter;
  plan.process.capabilities.bounding |= kTrace;
  plan.process.no_new_privs = true;
  run = Run(plan);
  EXPECT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.Fact("Seccomp"), "2");
}

}  // namespace
}  // namespace holdfast::runtime
