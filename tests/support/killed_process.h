// SPDX-License-Identifier: Apache-2.0
// For tests that kill -9: this program again, with one test only, as the process that is killed.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
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
