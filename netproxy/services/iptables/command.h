// SPDX-License-Identifier: Apache-2.0
// One run of a program with text in and text out, under a time limit.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::netproxy::iptables {

struct CommandOutput {
  int status = 0;  // as a shell shows it
  std::string out;
  std::string err;
};

// What the process has besides its input and output.
struct CommandExtras {
  int inherited = -1;                        // a descriptor that it holds until its end
  std::function<void(pid_t child)> started;  // called before it gets any input
};

// In the calling thread's namespaces, found by $PATH. kNotFound without such a program,
// kDeadlineExceeded when it was killed after `limit`.
Result<CommandOutput> RunCommand(std::vector<std::string> argv, std::string_view input,
                                 std::chrono::milliseconds limit, const CommandExtras& extras = {});

}  // namespace holdfast::netproxy::iptables
