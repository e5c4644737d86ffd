// SPDX-License-Identifier: Apache-2.0
// RuntimeNode: everything that one ContainerRuntime needs, of the test's own: root and run
// directory, cgroup parent, an image layer with busybox, and a keeper. Removed on destruction with
// everything below it. Single-threaded use; needs root.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/interfaces/container_runtime.h"
#include "runtime/containers/options.h"
#include "runtime/keeper/client/client.h"

namespace holdfast::test_support {

class RuntimeNode {
 public:
  // The calling process gets a mount and a network namespace of its own (once), so that a failure
  // leaves the machine as it was.
  RuntimeNode();
  // A node that another process made: nothing is made and nothing removed.
  explicit RuntimeNode(const std::string& dir, const std::string& cgroup_parent);
  ~RuntimeNode();
  RuntimeNode(const RuntimeNode&) = delete;
  RuntimeNode& operator=(const RuntimeNode&) = delete;

  const std::string& dir() const { return dir_; }
  const std::string& cgroup_parent() const { return cgroup_parent_; }
  runtime::RuntimeOptions Options() const;
  // Aborts the test program with the reason when the runtime cannot be made.
  std::unique_ptr<ContainerRuntime> Open() const;
  runtime::keeper::KeeperClient Keeper() const;

  model::SandboxSpec Sandbox(const std::string& uid) const;
  // `id` is repeated to 64 digits: "a1" gives "a1a1…".
  model::ContainerSpec Container(const std::string& uid, const std::string& id,
                                 std::vector<std::string> argv) const;
  // A directory of the node's at /volume; returns it. One for all containers.
  std::string AddVolume(model::ContainerSpec& spec) const;
  static ContainerId Id(const std::string& digits);
  std::string LogPath(const model::ContainerSpec& spec) const { return spec.log.path; }

  // What is left of pods and containers, in words; empty on a clean node.
  std::vector<std::string> Leftovers() const;
  // Process ids behind the keeper's sockets: holder, launchers, logger.
  std::vector<pid_t> KeeperProcesses() const;
  pid_t Logger()
      const;  // aborts the test program when there is none: 0 would be a whole process group
  void KillKeeper() const;

 private:
  bool owner_ = true;
  std::string dir_;
  std::string cgroup_parent_;
};

}  // namespace holdfast::test_support
