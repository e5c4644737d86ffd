// SPDX-License-Identifier: Apache-2.0
// Runs a program that answers on its standard output: with limits of time and space, and it ends with all that it
// started. One that the kernel does not let end within 5 s after it was killed, because it waits for a dead server, is
// left alone. Thread-safe. Source: posix_spawn(3), pidfd_open(2).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/sys/process.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent {

// In the environment of a program that has an owner, and of all that it starts.
inline constexpr char kProgramOwner[] = "HOLDFAST_OWNER";

struct BoundedProgram {
  std::string command;  // a path, or a name to be looked for in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // beside the agent's own
  std::string input;                                     // what it may read; "": nothing
  std::string
      owner;  // by which EndOrphans() (program_orphans.h) knows it; "": it is not looked for
};

struct ProgramLimits {
  std::chrono::milliseconds time{60'000};
  size_t output = 1 << 20;                       // bytes
  const std::atomic<bool>* cancelled = nullptr;  // nobody wants it any more; looked at often
};

// How it ended, whatever its exit code, and what it wrote to its standard output and, the last of it, to its standard
// error.
struct ProgramEnd {
  sys::ExitStatus status;
  std::string output;
  std::string errors;
};

// Blocks until it ended, its time is up, `stop` is set or it is cancelled; all but the first are errors.
Result<ProgramEnd> RunToItsEnd(const BoundedProgram& program, const sys::Wakeup& stop,
                               const ProgramLimits& limits = {});

// What it wrote to its standard output. Blocks until it ended, its time is up or `stop` is set. Errors have its exit
// code and the last of what it wrote to its standard error.
Result<std::string> RunBounded(const BoundedProgram& program, const sys::Wakeup& stop,
                               const ProgramLimits& limits = {});

}  // namespace holdfast::agent
