// SPDX-License-Identifier: Apache-2.0
// How much of the node all pods together may use, and what the node keeps for itself even when
// nobody reserved anything. Pure. Source: feature-map 1.19.6 and 2.4.3.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/config/agent_config.h"
#include "holdfast/base/result.h"
#include "runtime/cgroup/bounds.h"
#include "runtime/cgroup/naming.h"

namespace holdfast::agent {

// `machine`, but no more than the cgroups above the pods allow.
NodeAmounts Within(NodeAmounts machine, const runtime::CgroupBounds& bounds);

// Kept for the node where neither systemReserved nor kubeReserved names the resource. Of pids a
// tenth; of memory a twentieth, but 100 MiB at least (what a kubelet's default evictionHard keeps
// free; of a small node a quarter) and 1 GiB at most; of CPU nothing, which is shared by weight.
NodeAmounts DefaultReserve(const NodeAmounts& capacity);

// What is left of `capacity` for all pods together. kInvalidArgument when more is reserved than
// there is.
Result<NodeAmounts> NodeAllocatable(const NodeConfig& node, const NodeAmounts& capacity);

// How the cgroups of pods are named: cgroupDriver.
runtime::CgroupNaming CgroupNamingOf(const AgentConfig& config);

// Objects that the kernel counts on the whole machine or of each of its users; root in a pod and
// root on the node are one user.
struct SharedCount {
  const char* sysctl;  // the limit, below /proc/sys
  const char* what;    // "open files"
  int64_t least;
};

// Limits at which pods with `pods_bytes` of memory in all are out of memory first: the kernel
// charges each of these objects to the cgroup of who made it. Besides the pods' open files the node
// has the kernel's default, one per 10 KiB of `machine_bytes`.
std::vector<SharedCount> SharedCounts(int64_t pods_bytes, int64_t machine_bytes);

}  // namespace holdfast::agent
