// SPDX-License-Identifier: Apache-2.0
// What a plan's indexes refer to, opened. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

// A detached, recursive copy of the volume's tree, which is opened as its `source_root` says. `sub_path` is resolved beneath `source`: a
// symlink that leads out of it is refused, whatever the container does to the volume meanwhile; a
// missing one is made as a directory with the mode of the volume.
Result<MountFd> OpenVolume(const model::MountSpec& spec);

// Every node below /dev, for privileged containers; without ptys, shm, mqueue and the like.
Result<std::vector<model::DevicePlan>> ListHostDevices();

// "/sys/devices/system/cpu/cpu0/thermal_throttle" of every CPU that has it: how often it was slowed
// down tells what others compute. `cpus` is the directory of the CPUs.
std::vector<std::string> ThrottlePaths(const std::string& cpus = "/sys/devices/system/cpu");

}  // namespace holdfast::runtime
