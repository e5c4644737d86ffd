// SPDX-License-Identifier: Apache-2.0
// For tests that kill -9: this program again, with one test only, as the process that is killed.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "holdfast/base/strings.h"

namespace holdfast::test_support {

// `test`: "Driver.DISABLED_Load"; disabled, so that nothing else runs it. `environment`: further
// NAME=value settings, such as an armed pause point. In the caller's namespaces.
inline pid_t StartDriver(const std::string& test, std::vector<std::string> environment) {
  const std::string filter = StrCat("--gtest_filter=", test);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  for (std::string& setting : environment) ::putenv(setting.data());
  ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
  ::execl("/proc/self/exe", "driver", "--gtest_also_run_disabled_tests", filter.c_str(),
          "--gtest_brief=1", nullptr);
  ::_exit(127);
}

// Waits for the driver's end, or for its stop at a pause point; true when it stopped.
inline bool WaitForStop(pid_t driver) {
  int status = 0;
  ::waitpid(driver, &status, WUNTRACED);
  return WIFSTOPPED(status);
}

// Neither ended nor reaped.
inline bool IsRunning(pid_t driver) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(driver), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

// kill -9, also of one that has stopped, and reaped.
inline void Kill(pid_t driver) {
  ::kill(driver, SIGKILL);
  ::waitpid(driver, nullptr, 0);
}

struct KillsAtWork {
  std::function<pid_t()> start;                         // a driver with a large load
  std::function<void(int kill)> prepare;                // what it finds; may be empty
  std::function<void(const std::string& when)> expect;  // what is to work after it was killed
};

// Kills drivers at random moments of the span that a whole load takes, until `kills` (HOLDFAST_KILLS) of them were at
// work then: the death of one that was done shows nothing.
inline void KillAtWork(int kills, const KillsAtWork& test) {
  using std::chrono::milliseconds;
  if (const char* wanted = std::getenv("HOLDFAST_KILLS")) kills = std::stoi(wanted);
  const auto seed = static_cast<unsigned>(::getpid());
  std::mt19937 random(seed);
  if (test.prepare) test.prepare(0);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(WaitForStop(test.start()));
  const auto whole =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began);
  ASSERT_GE(whole, milliseconds(10)) << "it loaded nothing";
  int at_work = 0;
  int tries = 0;
  for (; at_work < kills && tries < 4 * kills; ++tries) {
    if (test.prepare) test.prepare(tries);
    const pid_t pid = test.start();
    const auto span = static_cast<unsigned>(whole.count());
    ::poll(nullptr, 0, static_cast<int>(random() % span));  // the moment is the test's subject
    at_work += IsRunning(pid) ? 1 : 0;
    Kill(pid);
    test.expect(StrCat("try ", tries));
  }
  EXPECT_EQ(at_work, kills) << "of " << tries << " tries";
  std::printf("note: %d kills at work in %d tries over %lld ms, seed %u\n", at_work, tries,
              static_cast<long long>(whole.count()), seed);
}

// How often a driver with HOLDFAST_PAUSE_AT=? passed each pause point
// (include/holdfast/sys/pause_point.h). `directory`: its HOLDFAST_PAUSE_DIR.
inline std::map<std::string, int> Passages(const std::string& directory) {
  std::map<std::string, int> out;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (!entry.path().filename().string().starts_with("passed.")) continue;
    std::ifstream file(entry.path());
    for (std::string name; std::getline(file, name);) ++out[name];
  }
  return out;
}

}  // namespace holdfast::test_support
