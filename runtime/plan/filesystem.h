// SPDX-License-Identifier: Apache-2.0
// What a container's file tree is made of: default mounts, /dev, volumes, masked and read-only
// paths. Pure; descriptors come as indexes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

struct FilesystemInput {
  std::vector<model::FdIndex> volumes;   // per spec.mounts entry; kNoFd for a tmpfs
  model::FdIndex shm = model::kNoFd;     // the pod's; kNoFd: a tmpfs of the container's own
  model::FdIndex procfs = model::kNoFd;  // the pod's, when it shares a pid namespace
  bool shm_is_bind = false;              // hostIPC: the host's /dev/shm, a detached mount
  bool cgroup_unified = false;
  std::string cgroup2_options;  // the node's, for a container that sees its cgroups
  struct Hierarchy {
    std::string name;
    std::string options;
  };
  std::vector<Hierarchy> cgroup_v1;
  std::vector<model::DevicePlan> host_devices;  // privileged
  std::vector<std::string> throttle_paths;      // ThrottlePaths(), masked too
};

// The options of the node's cgroup2 in `mountinfo` (proc_pid_mountinfo(5)) that belong to the whole
// tree, "nsdelegate,memory_recursiveprot". A mount from the initial cgroup namespace sets them for
// all others, so one without them would take them from the node.
std::string Cgroup2Options(std::string_view mountinfo);

// Fills mounts, devices, masked_paths and read_only_paths of `plan`. kInvalidArgument names a
// destination, of a volume or a device, that is not absolute, is the root, or lies on /proc.
Result<void> CompileFilesystem(const model::ContainerSpec& spec, const FilesystemInput& input,
                               model::LaunchPlan& plan);

}  // namespace holdfast::runtime
