// SPDX-License-Identifier: Apache-2.0
// The hierarchies beside those in which we set limits: v1's freezer, blkio, cpuset, name=systemd
// and the like, and the cgroup2 tree of a hybrid machine. Containers must not stay in their roots:
// who may mount in a container (CAP_SYS_ADMIN) mounts a hierarchy once more, beginning at the root
// of its cgroup namespace, and v1's real roots have release_agent, a program that the node runs as
// root (CVE-2022-0492). The decision is pure; DetectCgroupLayout looks at the machine.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cgroup/layout.h"

namespace holdfast::runtime {

// One line of mountinfo (proc(5)) with a cgroup file system.
struct CgroupMount {
  std::string device;                          // "0:32", the same for all mounts of a hierarchy
  std::string root;                            // what of the hierarchy is mounted: "/" or a cgroup
  std::string mount_point;                     // absolute, without escapes
  bool unified = false;                        // cgroup2
  std::set<std::string, std::less<>> options;  // of the hierarchy: "cpu", "name=systemd"
  bool operator==(const CgroupMount&) const = default;
};

std::vector<CgroupMount> ParseCgroupMounts(std::string_view mountinfo);

struct FurtherHierarchies {
  std::vector<CgroupHierarchy> joined;
  std::vector<std::string> left_out;  // "freezer: it is not mounted", for a warning
};

// Of the hierarchies that exist (`proc_cgroup`: /proc/self/cgroup) those that are none of the
// devices `known`, each at its mount point below `cgroup_root`, else at one that shows all of it.
// `unusable` says why a mount cannot be used, or "".
FurtherHierarchies FindFurther(std::string_view mountinfo, std::string_view proc_cgroup,
                               const std::string& cgroup_root, const std::set<std::string>& known,
                               const std::function<std::string(const CgroupMount&)>& unusable);

}  // namespace holdfast::runtime
