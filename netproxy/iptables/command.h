// SPDX-License-Identifier: Apache-2.0
// One run of a program with text in and text out, under a time limit.
#pragma once

#include <chrono>
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

// In the calling thread's namespaces, found by $PATH. kNotFound without such a program,
// kDeadlineExceeded when it was killed after `limit`.
Result<CommandOutput> RunCommand(std::vector<std::string> argv, std::string_view input,
                                 std::chrono::milliseconds limit);

}  // namespace holdfast::netproxy::iptables
