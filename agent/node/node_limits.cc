// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_limits.h"

#include <algorithm>
#include <limits>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr int64_t kMiB = 1 << 20;
// No kernel has a smaller `struct file`: 184 bytes in 6.12, more before.
constexpr int64_t kBytesPerFile = 128;
constexpr int64_t kBytesPerFileOfTheNode = 10 * 1024;
// A mark of inotify takes 80 bytes and more, a place in an epoll set 128.
constexpr int64_t kBytesPerWatch = 64;

int64_t Least(int64_t amount, int64_t bound) {
  return bound == runtime::CgroupLimits::kUnlimited ? amount : std::min(amount, bound);
}

Result<int64_t> Left(const char* name, int64_t capacity, int64_t reserved) {
  if (reserved <= capacity) return capacity - reserved;
  return InvalidArgument(StrCat("systemReserved and kubeReserved: more ", name, " (", reserved,
                                ") than the node has (", capacity, ")"));
}

}  // namespace

NodeAmounts Within(NodeAmounts machine, const runtime::CgroupBounds& bounds) {
  machine.memory_bytes = Least(machine.memory_bytes, bounds.memory_bytes);
  machine.pids = Least(machine.pids, bounds.pids);
  return machine;
}

NodeAmounts DefaultReserve(const NodeAmounts& capacity) {
  NodeAmounts reserve;
  const int64_t least = std::min(100 * kMiB, capacity.memory_bytes / 4);
  reserve.memory_bytes = std::clamp(capacity.memory_bytes / 20, least, 1024 * kMiB);
  reserve.pids = capacity.pids / 10;
  return reserve;
}

Result<NodeAmounts> NodeAllocatable(const NodeConfig& node, const NodeAmounts& capacity) {
  const NodeAmounts& kube = node.kube_reserved;
  const NodeAmounts& system = node.system_reserved;
  NodeAmounts reserved{kube.cpu_milli + system.cpu_milli, kube.memory_bytes + system.memory_bytes,
                       kube.pids + system.pids};
  const NodeAmounts by_default = DefaultReserve(capacity);
  if (reserved.memory_bytes == 0) reserved.memory_bytes = by_default.memory_bytes;
  if (reserved.pids == 0) reserved.pids = by_default.pids;
  NodeAmounts left;
  ASSIGN_OR_RETURN(left.cpu_milli, Left("milli-CPU", capacity.cpu_milli, reserved.cpu_milli));
  ASSIGN_OR_RETURN(left.memory_bytes,
                   Left("bytes of memory", capacity.memory_bytes, reserved.memory_bytes));
  ASSIGN_OR_RETURN(left.pids, Left("process ids", capacity.pids, reserved.pids));
  return left;
}

runtime::CgroupNaming CgroupNamingOf(const AgentConfig& config) {
  return config.cgroup_driver == "systemd" ? runtime::CgroupNaming::kSystemd
                                           : runtime::CgroupNaming::kCgroupfs;
}

std::vector<SharedCount> SharedCounts(int64_t pods_bytes, int64_t machine_bytes) {
  constexpr int64_t kMostOfInotify = std::numeric_limits<int32_t>::max();  // the kernel's bound
  const int64_t files = pods_bytes / kBytesPerFile;
  const int64_t watches = pods_bytes / kBytesPerWatch;
  return {
      {"fs/file-max", "open files", files + machine_bytes / kBytesPerFileOfTheNode},
      {"fs/inotify/max_user_instances", "instances of inotify", std::min(files, kMostOfInotify)},
      {"fs/inotify/max_user_watches", "watches of inotify", std::min(watches, kMostOfInotify)},
      {"fs/epoll/max_user_watches", "places in epoll sets", watches},
  };
}

}  // namespace holdfast::agent
