// SPDX-License-Identifier: Apache-2.0
// Who is measured: each starts the payload once in a fresh, fully isolated container and tells how
// long it took from the call to the payload's first instruction. Each is used by one thread; several of one kind can be
// used side by side.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "holdfast/interfaces/pod_network.h"
#include "tests/support/containers/runtime_node.h"

namespace holdfast::bench {

class Contender {
 public:
  virtual ~Contender() = default;
  // Milliseconds; negative when it failed. Cleans up after itself, untimed.
  virtual double StartOnce() = 0;
};

double NowMillis();

// Ours: EnsureSandbox and Start of one container with its own network namespace; `network` (may be null): and Setup in
// between.
std::unique_ptr<Contender> MakeOurs(const test_support::RuntimeNode& node,
                                    ContainerRuntime& runtime, PodNetwork* network = nullptr);
// A program that does the kernel work only (tests/bench/limit), with the layer DIR/root/layer; `kind`: "net", "pooled",
// "first=N".
std::unique_ptr<Contender> MakeLimit(const std::string& dir, const std::string& cgroup_parent,
                                     std::vector<std::string> kind = {});
// A command line; "{id}" becomes a fresh name. Without `cleanup` the payload's output is the
// command's output; with it the command is timed as a whole, and `cleanup` runs afterwards,
// untimed.
std::unique_ptr<Contender> MakeCommand(std::vector<std::string> words,
                                       std::vector<std::string> cleanup);
// Wall time of a command line, for `--version`.
double RunOnce(const std::vector<std::string>& words);

// The container of MakeOurs.
model::ContainerSpec PayloadContainer(const test_support::RuntimeNode& node, const std::string& uid,
                                      std::vector<std::string> argv);
std::string BinDir();

}  // namespace holdfast::bench
