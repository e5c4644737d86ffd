// SPDX-License-Identifier: Apache-2.0
// Who is measured: each starts the payload once in a fresh, fully isolated container and tells how
// long it took from the call to the payload's first instruction. Single-threaded.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/containers/runtime_node.h"

namespace holdfast::bench {

class Contender {
 public:
  virtual ~Contender() = default;
  // Milliseconds; negative when it failed. Cleans up after itself, untimed.
  virtual double StartOnce() = 0;
};

double NowMillis();

// Ours: EnsureSandbox and Start of one container with its own network namespace.
std::unique_ptr<Contender> MakeOurs(const test_support::RuntimeNode& node,
                                    ContainerRuntime& runtime);
// A program that does the kernel work only (limit.cc).
std::unique_ptr<Contender> MakeLimit(const test_support::RuntimeNode& node);
// A command line; "{id}" becomes a fresh name. The payload's output is the command's output.
std::unique_ptr<Contender> MakeCommand(std::vector<std::string> words);
// Wall time of a command line, for `--version`.
double RunOnce(const std::vector<std::string>& words);

// The container of MakeOurs.
model::ContainerSpec PayloadContainer(const test_support::RuntimeNode& node, const std::string& uid,
                                      std::vector<std::string> argv);
std::string BinDir();

}  // namespace holdfast::bench
