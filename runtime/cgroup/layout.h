// SPDX-License-Identifier: Apache-2.0
// CgroupLayout: which hierarchies this machine has and where. v2 is one hierarchy with all
// controllers; v1 (also hybrid) is one per controller or group of controllers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::runtime {

enum class CgroupVersion : uint8_t { kV1, kV2 };

// The controllers that we set. Others (cpuset, …) stay as they are; v2's io is enabled for what it counts.
enum class Controller : uint8_t { kCpu, kCpuAcct, kMemory, kPids, kDevices, kHugetlb };

struct CgroupHierarchy {
  std::string mount_point;              // absolute
  std::vector<Controller> controllers;  // that we set; empty: pods only join it (further.h)
  bool unified = false;                 // a cgroup2 tree beside v1 hierarchies
  bool operator==(const CgroupHierarchy&) const = default;
  bool Has(Controller controller) const;
};

struct CgroupLayout {
  CgroupVersion version = CgroupVersion::kV2;
  // First those with limits (v2: exactly one), then those that pods only join.
  std::vector<CgroupHierarchy> hierarchies;
  // Hierarchies whose root containers stay in, and why: "freezer: it is not mounted".
  std::vector<std::string> left_out = {};

  size_t WithLimits() const;  // how many
  bool operator==(const CgroupLayout&) const = default;
};

// Looks at `cgroup_root` (normally /sys/fs/cgroup) by statfs(2). A v1 controller is expected at
// <root>/<name>; names that lead to the same hierarchy (cpu and cpuacct) become one entry.
// kUnsupported names the controllers that are missing and how to enable them. Every other hierarchy
// that exists now is looked for in the mount table; one that appears later is found by the next
// call.
Result<CgroupLayout> DetectCgroupLayout(const std::string& cgroup_root);

}  // namespace holdfast::runtime
