// SPDX-License-Identifier: Apache-2.0
// From a spec to what the launcher is sent: opens volumes, reads the image's accounts, lists
// devices, loads the seccomp profile, then compiles (runtime/plan/compile.h, pure). For the agent
// process only. Thread-safe.
#pragma once

#include <expected>
#include <map>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/launch_plan.h"
#include "holdfast/sys/probe.h"

namespace holdfast::runtime {

// One cgroup v1 hierarchy of the container.
struct CgroupDirectory {
  int fd = -1;
  std::string options;  // mount options of the hierarchy: "memory", "cpu,cpuacct", "name=systemd"
  std::string name;     // directory below /sys/fs/cgroup: "memory", "cpu,cpuacct", "systemd";
                        // "": the container joins it and is not shown it
};

// Descriptors of the pod and the container, all borrowed until the plan was sent; -1 is absent.
struct PodDescriptors {
  int network_namespace = -1;  // needed when spec.namespaces says kPod; the same for the next ones
  int ipc_namespace = -1;
  int uts_namespace = -1;
  int pid_namespace = -1;
  int user_namespace = -1;                  // hostUsers: false; -1 for an exec and a sandbox
  std::vector<model::IdMapEntry> user_map;  // its map of uids and of gids, from 0 on; else empty
  int shm = -1;                             // SandboxFds::shm; -1: a tmpfs of the container's own
  int procfs = -1;                          // SandboxFds::proc, beside pid_namespace
  int cgroup_unified = -1;                  // v2; beside cgroup_v1 that of hybrid, joined only
  std::vector<CgroupDirectory> cgroup_v1;   // v1 and hybrid
  std::string selinux_level;                // SandboxRecord::selinux_level
  int standard_input = -1;                  // read end; -1 is /dev/null
  int standard_output = -1;                 // write end of the log pipe
  int standard_error = -1;
};

// Ready for SerializePlan(plan) + SendPacket(…, fds). `fds` are borrowed: from PodDescriptors and
// from `owned`, which must live until they were sent.
struct PreparedPlan {
  model::Plan plan;
  std::vector<int> fds;
  std::vector<UniqueFd> owned;
  EffectiveUser user;
  // The same on the host: who must own what the container is given, such as its log pipes.
  uint32_t host_uid = 0;
  uint32_t host_gid = 0;
  std::vector<std::string> warnings;
};

// Phase kConfig: what Kubernetes calls CreateContainerConfigError (runAsNonRoot …). kCreate: volume
// or user not found, a bad profile, an impossible wish.
std::expected<PreparedPlan, StartFailure> PrepareContainer(const model::ContainerSpec& spec,
                                                           const sys::HostFacts& facts,
                                                           const PodDescriptors& pod);

// A process with the container's namespaces, cgroup, user, capabilities, seccomp and environment.
// `spec` is the one the container was started with; `target` is a pidfd of its first process; of
// `pod` only the cgroup, the SELinux level and the three standard descriptors are used.
std::expected<PreparedPlan, StartFailure> PrepareExec(const model::ContainerSpec& spec,
                                                      const ExecSpec& exec,
                                                      const sys::HostFacts& facts,
                                                      const PodDescriptors& pod, int target);

// kInvalidArgument for a sysctl that is not namespaced by what the pod has of its own, or
// malformed. Of `pod` the user map is used, and with share_process_namespace, as `init_binary`, the
// cgroup and the SELinux level: the init is a process of the pod, and its program gets the label of the pod's files.
Result<PreparedPlan> PrepareSandbox(const model::SandboxSpec& spec, const sys::HostFacts& facts,
                                    const PodDescriptors& pod, int init_binary);

}  // namespace holdfast::runtime
