// SPDX-License-Identifier: Apache-2.0
// Trees that are built to hurt whoever walks them, and a process with little room to walk in.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "holdfast/base/unique_fd.h"

namespace holdfast::test {

// Directories "d" in each other below `top`, with a file at the bottom. Not by path: no path is as
// long as that.
inline bool NestDirectories(const std::string& top, size_t levels) {
  if (::mkdir(top.c_str(), 0755) != 0) return false;
  UniqueFd at(::open(top.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (size_t i = 0; i < levels; ++i) {
    if (::mkdirat(at.get(), "d", 0755) != 0) return false;
    UniqueFd next(::openat(at.get(), "d", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!next) return false;
    at = std::move(next);
  }
  return UniqueFd(::openat(at.get(), "bottom", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)).valid();
}

// Runs `work` in a child with a stack of 256 KiB and 64 descriptors; true when it ended with true.
inline bool WithLittleRoom(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit stack{256 << 10, 256 << 10};
    const rlimit files{64, 64};
    const rlimit core{0, 0};
    const bool limited = ::setrlimit(RLIMIT_STACK, &stack) == 0 &&
                         ::setrlimit(RLIMIT_NOFILE, &files) == 0 &&
                         ::setrlimit(RLIMIT_CORE, &core) == 0;
    ::_exit(limited && work() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

// A process that does `work` again and again until it is destroyed.
class Troublemaker {
 public:
  explicit Troublemaker(const std::function<void(unsigned round)>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    for (unsigned round = 0;; ++round) work(round);
  }
  Troublemaker(const Troublemaker&) = delete;
  Troublemaker& operator=(const Troublemaker&) = delete;
  ~Troublemaker() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

}  // namespace holdfast::test
