// SPDX-License-Identifier: Apache-2.0
// MakeContainerRuntime: the implementation of ContainerRuntime (holdfast/interfaces) inside the
// agent process, on the cgroup tree, the records on disk and the keeper.
#pragma once

#include <sys/resource.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/model/instance.h"
#include "holdfast/sys/probe.h"
#include "runtime/cgroup/tree.h"
#include "runtime/containers/id_ranges.h"

namespace holdfast::runtime {

struct RuntimeOptions {
  model::Instance instance;
  // Started (`hold`) when the keeper's socket does not answer; "" where systemd does that.
  std::string keeper_binary;
  // RLIMIT_CORE that the keeper starts with and containers inherit; absent: the caller's.
  std::optional<rlimit> keeper_core_limit;
  std::string init_binary;  // static; PID 1 of pods with shareProcessNamespace
  CgroupNaming cgroup_naming = CgroupNaming::kCgroupfs;
  NodeAllocatable allocatable;
  int64_t pod_pids = CgroupLimits::kUnlimited;  // processes and threads of one pod
  // Told what could not be had and is done without. Thread-safe; may be absent.
  std::function<void(const std::string&)> warn;
  // Puts into the network namespace (borrowed) of a sandbox that lies ready what its pod will need there. Called by one
  // thread, which ends with the runtime; may be absent.
  std::function<Result<void>(int network_namespace)> make_network_ready;
  bool single_process_oom_kill = false;
  IdSpace ids;                          // for pods with hostUsers: false
  std::optional<sys::HostFacts> facts;  // probed when absent
};

// Makes the directories and the kubepods tree, starts the keeper if needed, adopts what runs and
// takes away what a crash left half-made. One per run directory.
Result<std::unique_ptr<ContainerRuntime>> MakeContainerRuntime(RuntimeOptions options);

// Takes away what MakeContainerRuntime made on the node and that belongs to no pod (the kubepods
// tree), for an uninstall. EBUSY (sys_errno) while a pod is left. Needs no keeper.
Result<void> RemoveNodeParts(const RuntimeOptions& options);

}  // namespace holdfast::runtime
