// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/hold/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "holdfast/sys/spawn.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr int64_t kLivedLongMs = 500;
constexpr int64_t kFirstDelayMs = 20;
constexpr int64_t kLongestDelayMs = 1000;

}  // namespace

Result<pid_t> SpawnKeeper(int binary, const std::vector<std::string>& args) {
  std::vector<std::string> copies = args;
  std::vector<char*> argv;
  for (std::string& arg : copies) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const std::vector<char*> environment = sys::OwnProgramEnvironment();
  const pid_t pid = ::fork();
  if (pid < 0) return Error::FromErrno(errno, "fork keeper process");
  if (pid > 0) return pid;
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execveat(binary, "", argv.data(), environment.data(), AT_EMPTY_PATH);
  ::_exit(127);
}

int64_t RestartDelay::Died(int64_t now_ms) {
  if (now_ms - started_ms_ >= kLivedLongMs) {
    delay_ms_ = 0;
    return now_ms;
  }
  delay_ms_ = std::clamp(delay_ms_ * 2, kFirstDelayMs, kLongestDelayMs);
  return now_ms + delay_ms_;
}

}  // namespace holdfast::runtime::keeper
