// SPDX-License-Identifier: Apache-2.0
// From a spec and what was gathered for it (runtime/gather) to the plan that the launcher is sent.
// Pure: descriptors come as indexes into the list that travels with the plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/launch_plan.h"
#include "holdfast/sys/probe.h"
#include "runtime/plan/filesystem.h"
#include "runtime/plan/user.h"

namespace holdfast::runtime {

// What a process of a container needs, its first one and an exec alike.
struct ProcessInput {
  ResolvedUser user;
  uint64_t capabilities = 0;   // CompileCapabilities()
  model::SeccompPlan seccomp;  // for these capabilities
  model::SelinuxLabels labels;
  model::CgroupPlan cgroup;
  model::FdIndex standard_input = model::kNoFd;  // kNoFd is /dev/null
  model::FdIndex standard_output = model::kNoFd;
  model::FdIndex standard_error = model::kNoFd;
};

// Namespaces are given where the spec says kPod; kNoFd: the pod has none.
struct ContainerInput {
  ProcessInput process;
  model::FdIndex network_namespace = model::kNoFd;
  model::FdIndex ipc_namespace = model::kNoFd;
  model::FdIndex uts_namespace = model::kNoFd;
  model::FdIndex pid_namespace = model::kNoFd;
  model::FdIndex user_namespace = model::kNoFd;  // hostUsers: false, beside the two below
  std::vector<model::IdMapEntry> user_map;       // its map of uids and of gids, from 0 on
  model::FdIndex host_devices = model::kNoFd;    // a detached copy of the node's /dev
  FilesystemInput filesystem;
};

// The id that `id` of the pod has on the host. kInvalidArgument when its namespace has none.
Result<uint32_t> OnHost(const std::vector<model::IdMapEntry>& map, uint32_t id);

Result<model::LaunchPlan> CompileContainer(const model::ContainerSpec& spec,
                                           const sys::HostFacts& facts,
                                           const ContainerInput& input);

// `spec` is the one the container was started with; `target` is the pidfd of its first process.
Result<model::ExecPlan> CompileExec(const model::ContainerSpec& spec, const ExecSpec& exec,
                                    const sys::HostFacts& facts, const ProcessInput& input,
                                    model::FdIndex target, bool own_users);

}  // namespace holdfast::runtime
