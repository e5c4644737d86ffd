// SPDX-License-Identifier: Apache-2.0
// A program that runs as long as the object lives: then it gets SIGTERM, and its end is waited for.
#pragma once

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "holdfast/base/strings.h"
#include "tests/bench/measure.h"

namespace holdfast::bench {

class Background {
 public:
  explicit Background(std::string program) {
    char* argv[] = {program.data(), nullptr};
    const int failed = ::posix_spawn(&pid_, program.c_str(), nullptr, nullptr, argv, environ);
    if (failed != 0) Die(StrCat(program, ": ", std::strerror(failed)));
  }
  ~Background() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

 private:
  pid_t pid_ = 0;
};

}  // namespace holdfast::bench
