// SPDX-License-Identifier: Apache-2.0
// The harness' implementation (named _test.cc so that the test program picks it up).
#include "tests/system/runtime/keeper/harness.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/keeper/log/log_file.h"
#include "runtime/plan/wire.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime::keeper {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test_support::ReadText;

std::string ReadGz(const std::string& path) {
  gzFile file = ::gzopen(path.c_str(), "rb");
  std::string out;
  std::vector<char> chunk(1 << 16);
  for (int n = 0; (n = ::gzread(file, chunk.data(), static_cast<unsigned>(chunk.size()))) > 0;) {
    out.append(chunk.data(), static_cast<size_t>(n));
  }
  ::gzclose(file);
  return out;
}

}  // namespace

void KeeperTest::SetUp() {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // Everything mounted here goes with the test program.
  static const bool own_namespace =
      ::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0;
  ASSERT_TRUE(own_namespace);
  std::string pattern = testing::TempDir() + "holdfast-keeper-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  directory_ = pattern;
  for (const char* name : {"run", "image/bin", "scratch", "pause", "logs"}) {
    fs::create_directories(Path(name));
  }
  fs::copy_file(CHATTER_BINARY, Path("image/bin/chatter"));
  client_ = std::make_unique<KeeperClient>(Path("run"));
}

void KeeperTest::TearDown() {
  if (directory_.empty()) return;
  StopTending();
  for (const char* command : {"hold", "launch", "log"}) KillAll(command);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
  ::umount2(Path("run").c_str(), MNT_DETACH);
  fs::remove_all(directory_);
  fs::remove(Path("run.lock"));
}

void KeeperTest::StartHolder(const std::map<std::string, std::string>& environment) {
  SpawnHolder(environment);
  tending_ = true;
  tender_ = std::thread([this] { Tend(); });
}

void KeeperTest::StopTending() {
  tending_ = false;
  if (tender_.joinable()) tender_.join();
}

void KeeperTest::SpawnHolder(const std::map<std::string, std::string>& environment) {
  // Everything is made before the fork: afterwards another thread's locks may be held for ever.
  std::vector<std::string> args{"holdfast-keeper", "hold", StrCat("--run-dir=", Path("run")),
                                StrCat("--visible=", directory_)};
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(StrCat(name, "=", value));
  std::vector<char*> argv;
  std::vector<char*> envp;
  for (std::string& arg : args) argv.push_back(arg.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  ++holder_starts_;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close_range(3, ~0u, 0);
    ::execve(KEEPER_BINARY, argv.data(), envp.data());
    ::_exit(127);
  }
  holder_ = pid;
}

void KeeperTest::Tend() {
  while (tending_) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid > 0 && pid == holder_) SpawnHolder({});
    if (pid <= 0) std::this_thread::sleep_for(milliseconds(1));
  }
}

void KeeperTest::WaitForKeeper() {
  ASSERT_TRUE(Eventually([&] { return client_->Ping().has_value(); }));
}

std::vector<pid_t> KeeperTest::Processes(const std::string& command) const {
  std::vector<pid_t> pids;
  const std::string wanted = StrCat("--run-dir=", Path("run"));
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string line = ReadText(StrCat("/proc/", name, "/cmdline"));
    const std::string head = StrCat("holdfast-keeper", '\0', command, '\0', wanted, '\0');
    if (line.starts_with(head)) pids.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return pids;
}

void KeeperTest::Kill(pid_t pid) {
  const PidFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return;
  ::kill(pid, SIGKILL);
  pollfd event{fd.get(), POLLIN, 0};
  ::poll(&event, 1, 10000);
}

void KeeperTest::KillAll(const std::string& command) {
  for (pid_t pid : Processes(command)) Kill(pid);
}

model::LaunchPlan KeeperTest::Plan(const std::vector<std::string>& argv,
                                   const std::string& scratch) {
  fs::create_directories(scratch);
  model::LaunchPlan plan;
  plan.root.layers = {Path("image")};
  plan.root.scratch = scratch;
  model::MountPlan proc;
  proc.kind = model::MountPlan::Kind::kProc;
  proc.destination = "/proc";
  plan.mounts = {proc};
  plan.process.argv = argv;
  plan.process.env = {"PATH=/bin"};
  plan.process.capabilities.bounding = 0xa80425fb;
  return plan;
}

Subject KeeperTest::Make(const std::string& name, std::vector<std::string> argv, int exit_code,
                         uint64_t max_log_bytes) {
  Subject subject;
  subject.id = StrCat(name, ".", ::getpid());
  subject.argv = std::move(argv);
  subject.exit_code = exit_code;
  subject.log.path = Path(StrCat("logs/pod_", name, "/main/0.log"));
  subject.log.max_size_bytes = max_log_bytes;
  subject.log.max_files = 100000;
  return subject;
}

std::expected<Launched, LaunchFailure> KeeperTest::Start(Subject& subject) {
  auto pipes = client_->RegisterLog(ContainerId(subject.id), subject.log, 0, 0);
  if (!pipes) return std::unexpected(LaunchFailure{"log", 0, pipes.error().message(), false});
  model::LaunchPlan plan = Plan(subject.argv, Path("scratch/" + subject.id));
  plan.process.stdio.out = 0;
  plan.process.stdio.err = 1;
  auto memfd = sys::SealedMemfd("plan", SerializePlan(plan));
  if (!memfd) return std::unexpected(LaunchFailure{"memfd", 0, memfd.error().message(), false});
  LaunchRequest request;
  request.id = subject.id;
  request.plan = memfd->get();
  request.fds = {pipes->stdout_fd.get(), pipes->stderr_fd.get()};
  request.stdout_inode = pipes->stdout_inode;
  request.stderr_inode = pipes->stderr_inode;
  request.tag = "tag of " + subject.id;
  return Launch(subject, request);
}

std::expected<Launched, LaunchFailure> KeeperTest::StartWithTerminal(Subject& subject) {
  auto registered = client_->RegisterTtyLog(ContainerId(subject.id), subject.log);
  if (!registered) {
    return std::unexpected(LaunchFailure{"log", 0, registered.error().message(), false});
  }
  return LaunchWithTerminal(subject);
}

std::expected<Launched, LaunchFailure> KeeperTest::LaunchWithTerminal(Subject& subject) {
  model::LaunchPlan plan = Plan(subject.argv, Path("scratch/" + subject.id));
  model::MountPlan dev;
  dev.kind = model::MountPlan::Kind::kDev;
  dev.destination = "/dev";
  dev.mode = 0755;
  plan.mounts.push_back(dev);
  dev.kind = model::MountPlan::Kind::kDevpts;
  dev.destination = "/dev/pts";
  plan.mounts.push_back(dev);
  plan.process.stdio.tty = true;
  auto memfd = sys::SealedMemfd("plan", SerializePlan(plan));
  if (!memfd) return std::unexpected(LaunchFailure{"memfd", 0, memfd.error().message(), false});
  LaunchRequest request;
  request.id = subject.id;
  request.plan = memfd->get();
  return Launch(subject, request);
}

std::expected<Launched, LaunchFailure> KeeperTest::Launch(Subject& subject,
                                                          const LaunchRequest& request) {
  auto launched = client_->Launch(request);
  if (launched) {
    auto start = client_->FindStart(subject.id);
    if (start && *start) subject.start = **start;
    subject.pidfd = std::move(launched->pidfd);
  }
  return launched;
}

model::ExitReport KeeperTest::WaitExit(const Subject& subject) {
  model::ExitReport report;
  const bool ended = Eventually([&] {
    auto exit = client_->FindExit(subject.start, subject.pidfd.get());
    if (exit && *exit) report = **exit;
    return exit && *exit;
  });
  EXPECT_TRUE(ended) << subject.id << ": no exit record";
  return report;
}

model::ExitReport KeeperTest::Stop(Subject& subject) {
  // Process 1 of a pid namespace ignores a signal until it has a handler: sent until it ends.
  Eventually([&] {
    ::syscall(SYS_pidfd_send_signal, subject.pidfd.get(), SIGTERM, nullptr, 0);
    auto exit = client_->FindExit(subject.start, subject.pidfd.get());
    return exit && *exit;
  });
  return WaitExit(subject);
}

void KeeperTest::Clean(const Subject& subject) {
  const ContainerId id(subject.id);
  auto drained = client_->WaitLogDrained(id, kPatience);
  EXPECT_TRUE(drained) << drained.error().message();
  auto forgotten = client_->Forget(subject.id);
  EXPECT_TRUE(forgotten) << forgotten.error().message();
  auto unregistered = client_->UnregisterLog(id);
  EXPECT_TRUE(unregistered) << unregistered.error().message();
}

bool KeeperTest::Eventually(const std::function<bool()>& done) {
  const auto deadline = steady_clock::now() + kPatience;
  while (!done()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

namespace {

std::vector<std::string> NamesIn(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The rotated files, oldest first, and then `current`.
std::string ReadFiles(const fs::path& current, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::string>> rotated;  // stem, name
  for (const std::string& name : names) {
    if (name == current.filename() || name.ends_with(".tmp")) continue;
    const bool packed = name.ends_with(".gz");
    const std::string stem = packed ? name.substr(0, name.size() - 3) : name;
    // Source and result of a compression that was killed in between are the same lines.
    if (packed || std::find(names.begin(), names.end(), name + ".gz") == names.end()) {
      rotated.emplace_back(stem, name);
    }
  }
  std::sort(rotated.begin(), rotated.end());
  std::string text;
  for (const auto& [stem, name] : rotated) {
    const std::string file = current.parent_path() / name;
    text += name.ends_with(".gz") ? ReadGz(file) : ReadText(file);
  }
  return text + ReadText(current);
}

}  // namespace

std::vector<LogLine> KeeperTest::ReadLog(const Subject& subject, bool had_room) {
  const fs::path path(subject.log.path);
  std::string text;
  std::vector<std::string> names;
  // The newest rotated file stays as it is; the others are compressed one after the other, if there
  // is room. What was read counts when no file came or went meanwhile.
  EXPECT_TRUE(Eventually([&] {
    names = NamesIn(path.parent_path());
    const auto plain = std::count_if(
        names.begin(), names.end(), [](const std::string& name) { return !name.ends_with(".gz"); });
    if (had_room && plain > 2) return false;
    text = ReadFiles(path, names);
    return names == NamesIn(path.parent_path());
  })) << "not compressed";
  std::vector<LogLine> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const bool well_formed = line.size() >= 40 && line[30] == ' ' && line[29] == 'Z' &&
                             line[37] == ' ' && line[39] == ' ' &&
                             (line[38] == 'F' || line[38] == 'P');
    EXPECT_TRUE(well_formed) << subject.id << ": " << line.substr(0, 100);
    if (!well_formed) break;
    lines.push_back({line.substr(31, 6), line[38], line.substr(40)});
  }
  EXPECT_TRUE(text.empty() || text.back() == '\n');
  return lines;
}

size_t KeeperTest::ExpectTerminalComplete(const Subject& subject) {
  size_t next = 0;
  for (const LogLine& line : ReadLog(subject)) {
    EXPECT_EQ(line.stream, "stdout");
    if (!line.text.starts_with("out ")) continue;
    EXPECT_EQ(std::strtoul(line.text.c_str() + 4, nullptr, 10), next);
    ++next;
  }
  return next;
}

size_t KeeperTest::ExpectComplete(const Subject& subject) {
  std::map<std::string, long> next{{"out", 0}, {"err", 0}};
  size_t count = 0;
  for (const LogLine& line : ReadLog(subject)) {
    if (line.text == "tail") {
      EXPECT_EQ(line.tag, 'P');
      continue;
    }
    EXPECT_EQ(line.tag, 'F') << line.text;
    const std::string kind = line.text.substr(0, 3);
    EXPECT_EQ(line.stream, kind == "out" ? "stdout" : "stderr");
    const long number = std::strtol(line.text.c_str() + 4, nullptr, 10);
    EXPECT_EQ(number, next[kind]) << subject.id << ": lost or doubled at "
                                  << line.text.substr(0, 40);
    if (number != next[kind]) break;
    ++next[kind];
    ++count;
  }
  return count;
}

std::map<std::string, size_t> KeeperTest::DescriptorCounts() const {
  std::map<std::string, size_t> counts;
  for (const char* command : {"hold", "launch", "log"}) {
    for (pid_t pid : Processes(command)) {
      const auto begin = fs::directory_iterator(StrCat("/proc/", pid, "/fd"));
      counts[command] += static_cast<size_t>(std::distance(begin, fs::directory_iterator()));
    }
  }
  return counts;
}

void KeeperTest::ExpectNothingLeft() {
  EXPECT_EQ(client_->ListStarts()->size(), 0u);
  EXPECT_EQ(client_->ListExits()->size(), 0u);
  EXPECT_EQ(client_->ListLogs()->size(), 0u);
  EXPECT_EQ(*client_->ListKeys(), std::vector<std::string>());
  for (const char* dir : {"run/keeper/starts", "run/keeper/exits", "run/keeper/logs"}) {
    EXPECT_TRUE(fs::is_empty(Path(dir)))
        << dir << ": " << fs::directory_iterator(Path(dir))->path();
  }
  // Retired launchers end with their last container; nothing of an earlier generation stays.
  EXPECT_TRUE(Eventually([&] {
    return Processes("launch").size() == 1 && Processes("log").size() == 1;
  })) << Processes("launch").size()
      << " launchers, " << Processes("log").size() << " loggers";
}

}  // namespace holdfast::runtime::keeper
