// SPDX-License-Identifier: Apache-2.0
// An agent's network part in a process of its own, to be killed: the test program runs itself again
// with only the test "Driver.DISABLED_Serve" (crash_test.cc), which reads commands from stdin and
// answers with one line each. It works in the network namespace of the test's thread.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::netproxy {

class Driver {
 public:
  // `environment`: further NAME=value settings, such as an armed pause point.
  Driver(const std::string& root_dir, const std::string& cidrs,
         std::vector<std::string> environment = {}) {
    int in[2];
    int out[2];
    EXPECT_EQ(::pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    environment.push_back("HOLDFAST_DRIVER_ROOT=" + root_dir);
    environment.push_back("HOLDFAST_DRIVER_CIDRS=" + cidrs);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], 3);
      ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
      for (std::string& e : environment) ::putenv(e.data());
      ::execl("/proc/self/exe", "driver", "--gtest_also_run_disabled_tests",
              "--gtest_filter=Driver.DISABLED_Serve", "--gtest_brief=1", nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_.Reset(in[1]);
    from_.Reset(out[0]);
  }
  Driver(Driver&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        to_(std::move(other.to_)),
        from_(std::move(other.from_)) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver() { Kill(); }

  void Send(const std::string& command) {
    const std::string line = command + "\n";
    // A dead driver: Receive() tells.
    (void)!::write(to_.get(), line.data(), line.size());
  }
  // The answer's line, "" when the driver died or stopped at a pause point.
  std::string Receive() {
    std::string line;
    char c = 0;
    while (!stopped_ && WaitForAnswer()) {
      if (::read(from_.get(), &c, 1) != 1) return "";
      if (c == '\n') return line;
      line.push_back(c);
    }
    return "";
  }
  std::string Ask(const std::string& command) {
    Send(command);
    return Receive();
  }
  bool stopped() const { return stopped_; }

  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  bool WaitForAnswer() {
    for (int waited = 0; waited < 60000; waited += 5) {
      if (WaitFor(from_.get(), POLLIN, 5)) return true;
      int status = 0;
      if (::waitpid(pid_, &status, WUNTRACED | WNOHANG) == pid_) {
        stopped_ = WIFSTOPPED(status);
        if (!stopped_) pid_ = -1;
        return false;
      }
    }
    return false;
  }

  pid_t pid_ = -1;
  bool stopped_ = false;
  UniqueFd to_;
  UniqueFd from_;
};

}  // namespace holdfast::netproxy
