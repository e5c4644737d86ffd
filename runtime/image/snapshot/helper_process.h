// SPDX-License-Identifier: Apache-2.0
// One run of holdfast-unpack. The agent is multi-threaded and never forks: posix_spawn, and the
// helper cages itself before it reads a byte. Single-thread; killed and reaped on destruction.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime {

class HelperProcess {
 public:
  // `input` and `output` become fd 0 and 1 and stay the caller's. Empty environment.
  static Result<HelperProcess> Start(const std::string& program, std::vector<std::string> arguments,
                                     int input, int output);
  HelperProcess(HelperProcess&& other) noexcept;
  HelperProcess& operator=(HelperProcess&&) = delete;
  ~HelperProcess();

  // Fields of the report after "ok"; the helper's error; or how the process died.
  Result<std::vector<std::string>> Wait();
  void Kill();

 private:
  HelperProcess(pid_t pid, UniqueFd report, std::string step);
  Result<std::vector<std::string>> ReadReport(int status);
  pid_t pid_ = -1;
  UniqueFd report_;
  std::string step_;
};

}  // namespace holdfast::runtime
