// SPDX-License-Identifier: Apache-2.0
// Cgroup: one directory of our tree, held by descriptors: one per hierarchy (one with v2).
// CgroupBackend: what differs between cgroup v1 and v2, on such handles. Thread-safe: no state
// besides the layout; the kernel orders concurrent calls.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/container_spec.h"
#include "runtime/cgroup/layout.h"

namespace holdfast::runtime {

struct Cgroup {
  std::string path;  // below the hierarchies' mount points, for messages
  // In the order of CgroupLayout::hierarchies. A container's, and what is below it, only in those
  // with limits. Invalid where it is not: TakeGrouping().
  std::vector<DirFd> dirs;
  // Of a container: its pod's directories in the other hierarchies, to be joined, nothing else.
  std::vector<DirFd> shared = {};
};

// One row of what a container may do with devices. Minor -1 is any, major -1 is any.
struct DeviceRule {
  char type;  // 'c', 'b'
  int32_t major;
  int32_t minor;
  bool read;
  bool write;
  bool mknod;
};

// Absent means: leave as it is.
struct CgroupLimits {
  static constexpr int64_t kUnlimited = -1;
  std::optional<uint64_t> cpu_shares;   // v1 unit; v2's weight derives from it
  std::optional<int64_t> cpu_quota_us;  // per kCpuPeriodMicros, or kUnlimited
  std::optional<int64_t> memory_bytes;  // or kUnlimited
  std::optional<int64_t> swap_bytes;    // beside memory_bytes; v1 takes 0 only, with memory_bytes
  // v2 only: what is not taken from it, what is taken last, and from where on it is slowed down; or kUnlimited.
  std::optional<int64_t> memory_min, memory_low, memory_high;
  std::optional<int64_t> pids;           // or kUnlimited
  bool oom_group = false;                // v2: an OOM kill takes the whole cgroup
  bool standard_devices = false;         // only the devices every container may use, plus mknod
  std::vector<DeviceRule> devices = {};  // beside standard_devices
  // Those that are named; of a size that cannot be limited here nothing is said.
  std::vector<model::HugePageLimit> huge_pages = {};
};

struct CgroupUsage {
  uint64_t cpu_nanos = 0;          // CPU time consumed
  uint64_t memory_bytes = 0;       // charged, with page cache
  uint64_t working_set_bytes = 0;  // memory_bytes less inactive file pages
  uint64_t rss_bytes = 0;          // anonymous memory
  uint64_t pids = 0;
};

class CgroupBackend {
 public:
  virtual ~CgroupBackend() = default;

  virtual const CgroupLayout& layout() const = 0;
  // Makes controllers available to children of `cgroup` (v2's subtree_control; nothing in v1).
  // Must be called before children with limits are made.
  virtual Result<void> EnableForChildren(const Cgroup& cgroup) = 0;
  virtual Result<void> Apply(const Cgroup& cgroup, const CgroupLimits& limits) = 0;
  // SIGKILL to every process in it and below; returns without waiting for their end. Forks that
  // race with it do not escape.
  virtual Result<void> KillAll(const Cgroup& cgroup) = 0;
  // Processes killed by the OOM killer in it and below since it was made.
  virtual Result<uint64_t> OomKills(const Cgroup& cgroup) = 0;
  virtual Result<CgroupUsage> Usage(const Cgroup& cgroup) = 0;
  // What it has of cpu time and memory: cpu_quota_us and memory_bytes, kUnlimited without one.
  virtual Result<CgroupLimits> Limits(const Cgroup& cgroup) = 0;
  // The sizes of huge pages that can be limited in it, in bytes; none without that controller.
  virtual Result<std::vector<uint64_t>> HugePageSizes(const Cgroup& cgroup) = 0;
  // Limit of processes and threads in it and below; UINT64_MAX without one.
  virtual Result<uint64_t> PidsLimit(const Cgroup& cgroup) = 0;
};

std::unique_ptr<CgroupBackend> MakeCgroupBackend(CgroupLayout layout);

// `cgroup` in one hierarchy alone (v1: that of pids), whose directory is moved out of it. A child that is made of it only
// tells which processes belong together, at a sixth of v1's cost: in the other hierarchies they join `cgroup` itself.
Cgroup TakeGrouping(const CgroupLayout& layout, Cgroup& cgroup);

// The same in both versions.
struct MadeCgroup {
  Cgroup cgroup;
  bool fresh = false;  // false when a directory of that name was there in some hierarchy
};
Result<MadeCgroup> MakeChild(const Cgroup& parent, const std::string& name);
// kNotFound when it is in none of the hierarchies; missing ones are made again.
Result<Cgroup> OpenChild(const Cgroup& parent, const std::string& name);
// Kills what is in it, then removes it and what is below, in every hierarchy; waits for dying
// processes up to a second in all. Absent is success.
Result<void> RemoveChild(CgroupBackend& backend, const Cgroup& parent, const std::string& name);
// The same without killing and waiting: EBUSY (sys_errno) when a process is in it.
Result<void> RemoveEmptyChild(const Cgroup& parent, const std::string& name);
// Names of its child directories, over all hierarchies, sorted and without repetition.
Result<std::vector<std::string>> ListChildren(const Cgroup& cgroup);
// Process ids in it and below, over all hierarchies.
Result<std::vector<pid_t>> Processes(const Cgroup& cgroup);

}  // namespace holdfast::runtime
