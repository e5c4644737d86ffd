// SPDX-License-Identifier: Apache-2.0
// A child that does nothing until it is killed, at the latest with this object, which reaps it. To be made before any thread.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime {

class SleepingProcess {
 public:
  SleepingProcess() : pid_(::fork()) {
    if (pid_ == 0) {
      ::pause();
      ::_exit(0);
    }
  }
  ~SleepingProcess() {
    Kill();
    ::waitpid(pid_, nullptr, 0);
  }
  SleepingProcess(const SleepingProcess&) = delete;
  SleepingProcess& operator=(const SleepingProcess&) = delete;

  PidFd Open() const { return PidFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0))); }
  void Kill() const { ::kill(pid_, SIGKILL); }

 private:
  const pid_t pid_;
};

}  // namespace holdfast::runtime
