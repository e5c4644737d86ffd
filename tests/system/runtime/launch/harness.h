// SPDX-License-Identifier: Apache-2.0
// A launch without the keeper: image layers in a temporary directory, one call that runs a plan to
// its end and gives back what the probe printed.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "holdfast/sys/process.h"
#include "runtime/launch/launch.h"
#include "tests/support/eventually.h"

namespace holdfast::runtime {

// The first id of the host that a user namespace of these tests has.
constexpr uint32_t kBase = 0x70010000;

struct RunResult {
  LaunchOutcome outcome;
  std::string output;
  sys::ExitStatus exit;

  // The value of the probe's line "key value".
  std::string Fact(const std::string& key) const {
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(key + " ")) return line.substr(key.size() + 1);
      if (line == key) return "";
    }
    return "(no " + key + ")";
  }
};

class LaunchTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    auto context = MakeLaunchContext();
    ASSERT_TRUE(context.has_value()) << context.error().message();
    context_ = std::move(*context);
    std::string pattern = testing::TempDir() + "holdfast-launch-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    for (const char* name : {"image", "scratch", "volume"}) {
      std::filesystem::create_directory(directory_ + "/" + name);
    }
    std::filesystem::create_directory(directory_ + "/image/bin");
    std::filesystem::copy_file(PROBE_BINARY, directory_ + "/image/bin/probe");
  }
  void TearDown() override {
    if (directory_.empty()) return;
    EXPECT_TRUE(sys::RemoveTreeAt(AT_FDCWD, directory_).has_value());
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  void WriteFile(const std::string& name, const std::string& text) {
    std::ofstream(Path(name)) << text;
  }

  // A plan that a container of Kubernetes would get, as far as the steps are concerned.
  model::LaunchPlan BasePlan(std::vector<std::string> argv) {
    using Kind = model::MountPlan::Kind;
    model::LaunchPlan plan;
    plan.root.layers = {Path("image")};
    plan.root.scratch = Path("scratch");
    auto add = [&](Kind kind, const char* destination) -> model::MountPlan& {
      model::MountPlan mount;
      mount.kind = kind;
      mount.destination = destination;
      mount.no_suid = mount.no_exec = mount.no_dev = true;
      return plan.mounts.emplace_back(mount);
    };
    add(Kind::kProc, "/proc");
    model::MountPlan& dev = add(Kind::kDev, "/dev");
    dev.no_exec = dev.no_dev = false;
    dev.strict_atime = true;
    dev.mode = 0755;
    dev.size_bytes = 64 << 10;
    add(Kind::kDevpts, "/dev/pts").no_dev = false;
    add(Kind::kMqueue, "/dev/mqueue");
    add(Kind::kSysfs, "/sys").read_only = true;
    for (auto [name, major, minor] :
         std::vector<std::tuple<const char*, uint32_t, uint32_t>>{{"null", 1, 3},
                                                                  {"zero", 1, 5},
                                                                  {"full", 1, 7},
                                                                  {"random", 1, 8},
                                                                  {"urandom", 1, 9},
                                                                  {"tty", 5, 0}}) {
      plan.devices.push_back({name, false, major, minor, 0666, 0, 0});
    }
    plan.masked_paths = {"/proc/kcore", "/proc/timer_list", "/proc/acpi", "/sys/firmware",
                         "/proc/nothing"};
    plan.read_only_paths = {"/proc/sys", "/proc/sysrq-trigger", "/proc/bus"};
    plan.process.argv = std::move(argv);
    plan.process.env = {"PATH=/sbin:/bin"};
    plan.process.capabilities.bounding = 0xa80425fb;
    plan.process.capabilities.effective = 0xa80425fb;
    plan.process.capabilities.permitted = 0xa80425fb;
    return plan;
  }

  // Adds a descriptor to the list that goes with the plan.
  model::FdIndex AddFd(UniqueFd fd) {
    fds_.push_back(std::move(fd));
    return static_cast<model::FdIndex>(fds_.size()) - 1;
  }
  model::FdIndex AddTree(const std::string& path, bool recursive = true) {
    auto tree = sys::CloneTree(AT_FDCWD, path, recursive);
    EXPECT_TRUE(tree.has_value()) << tree.error().message();
    return AddFd(UniqueFd(tree->Release()));
  }

  // shareProcessNamespace
  void JoinProcesses(const SandboxFds& pod, model::LaunchPlan& plan) {
    plan.namespaces.new_pid = false;
    plan.namespaces.pid = AddFd(UniqueFd(::fcntl(pod.pid.get(), F_DUPFD_CLOEXEC, 3)));
    plan.mounts[0].source = AddFd(Duplicate(pod.proc));
  }

  // Launches, reads standard output and error to their end, reaps.
  RunResult Run(model::Plan plan) {
    RunResult result;
    int pipe_fds[2];
    EXPECT_EQ(::pipe2(pipe_fds, O_CLOEXEC), 0);
    UniqueFd reader(pipe_fds[0]);
    const model::FdIndex out = AddFd(UniqueFd(pipe_fds[1]));
    SetOutput(plan, out);
    auto pending = Launch(context_, plan, fds_, std::chrono::seconds(10));
    fds_.clear();
    if (!pending) {
      result.outcome.error = std::move(pending.error());
      return result;
    }
    (void)pending->Go();  // a child that has failed by now says why below
    result.outcome = pending->Wait();
    auto output = sys::ReadFd(reader.get(), 16 << 20);
    EXPECT_TRUE(output.has_value());
    if (output) result.output = std::move(*output);
    result.exit = Reap(*pending);
    return result;
  }

  // A container that goes on running; killed and reaped by Stop().
  struct Running {
    std::optional<PendingLaunch> launch;
    LaunchOutcome outcome;
  };
  Running Start(model::Plan plan) {
    Running running;
    auto pending = Launch(context_, plan, fds_, std::chrono::seconds(10));
    fds_.clear();
    if (!pending) {
      running.outcome.error = std::move(pending.error());
      return running;
    }
    EXPECT_TRUE(pending->Go().has_value());
    running.outcome = pending->Wait();
    running.launch.emplace(std::move(*pending));
    return running;
  }
  static void Stop(Running& running) {
    if (!running.launch) return;
    (void)sys::SendSignal(running.launch->pidfd(), SIGKILL);
    Reap(*running.launch);
  }

  // What a pod's sandbox gives; the child is reaped.
  SandboxFds MakeSandbox(const model::SandboxPlan& plan) {
    auto pending = Launch(context_, plan, fds_, std::chrono::seconds(10));
    EXPECT_TRUE(pending.has_value()) << pending.error().message();
    EXPECT_TRUE(pending->Go().has_value());
    LaunchOutcome outcome = pending->Wait();
    EXPECT_EQ(outcome.state, LaunchOutcome::State::kRunning)
        << outcome.step << ": " << (outcome.error ? outcome.error->message() : "");
    EXPECT_EQ(Reap(*pending).code, 0);
    return std::move(outcome.sandbox);
  }

  static UniqueFd Duplicate(const UniqueFd& fd) {
    return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
  }

  static sys::ExitStatus Reap(const PendingLaunch& pending) {
    pollfd event{pending.pidfd(), POLLIN, 0};
    EXPECT_EQ(::poll(&event, 1, 10000), 1);
    // Somebody who traces it is told first.
    std::optional<sys::ExitStatus> status;
    EXPECT_TRUE(test_support::Eventually([&] {
      auto exit = sys::ReapExit(pending.pidfd());
      if (exit) status = *exit;
      return status.has_value();
    }));
    return status.value_or(sys::ExitStatus{});
  }

  static std::string Why(const RunResult& result) {
    return result.outcome.error ? result.outcome.step + ": " + result.outcome.error->message() : "";
  }

  LaunchContext context_;
  std::string directory_;
  std::vector<UniqueFd> fds_;

 private:
  static void SetOutput(model::Plan& plan, model::FdIndex out) {
    if (auto* container = std::get_if<model::LaunchPlan>(&plan)) {
      container->process.stdio.out = container->process.stdio.err = out;
    } else if (auto* exec = std::get_if<model::ExecPlan>(&plan)) {
      exec->process.stdio.out = exec->process.stdio.err = out;
    }
  }
};

}  // namespace holdfast::runtime
