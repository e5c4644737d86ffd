// SPDX-License-Identifier: Apache-2.0
// Runs a program that makes credentials. It gets nothing to read, and a limited time and space to answer; it ends with
// all that it started. Source: client.authentication.k8s.io; posix_spawn(3), pidfd_open(2).
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "agent/cluster/kubeconfig.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent {

struct ExecLimits {
  std::chrono::milliseconds time{60'000};
  size_t output = 1 << 20;
};

// What it wrote to its standard output. Blocks until it ended, its time is up or `stop` is set. Errors have its exit
// code, the last of what it wrote to its standard error, and the hint how to install it.
Result<std::string> RunExecPlugin(const ExecPlugin& plugin, const std::string& info,
                                  const sys::Wakeup& stop, const ExecLimits& limits = {});

}  // namespace holdfast::agent
