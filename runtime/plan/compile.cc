// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/compile.h"

#include "holdfast/base/strings.h"
#include "runtime/plan/environment.h"
#include "runtime/plan/limits.h"

namespace holdfast::runtime {
namespace {

model::StdioPlan CompileStdio(const ProcessInput& input, bool tty) {
  model::StdioPlan stdio;
  stdio.tty = tty;
  if (tty) return stdio;
  stdio.in = input.standard_input;
  stdio.out = input.standard_output;
  stdio.err = input.standard_error;
  return stdio;
}

// Everything of a process but its argv: the same for the container's first one and for every exec.
Result<model::ProcessPlan> CompileProcess(const model::ContainerSpec& spec,
                                          const sys::HostFacts& facts, const ProcessInput& input,
                                          bool tty) {
  model::ProcessPlan process;
  ASSIGN_OR_RETURN(process.env,
                   CompileEnvironment(spec.env, {spec.hostname, input.user.home, tty}));
  process.cwd = spec.working_dir.empty() ? "/" : spec.working_dir;
  process.uid = input.user.uid;
  process.gid = input.user.gid;
  process.groups = input.user.groups;
  process.capabilities.bounding = input.capabilities;
  process.capabilities.effective = input.capabilities;
  process.capabilities.permitted = input.capabilities;
  process.no_new_privs = !spec.security.allow_privilege_escalation && !spec.security.privileged;
  process.seccomp = input.seccomp;
  process.app_armor = spec.security.app_armor_profile;
  process.selinux = input.labels.process;
  ASSIGN_OR_RETURN(process.rlimits, CompileRlimits(spec.rlimits, facts));
  process.oom_score_adj = spec.resources.oom_score_adj;
  process.stdio = CompileStdio(input, tty);
  return process;
}

Result<model::FdIndex> PodNamespace(model::NamespaceMode mode, model::FdIndex given,
                                    const char* name) {
  if (mode != model::NamespaceMode::kPod) return model::kNoFd;
  if (given == model::kNoFd) return Unavailable(StrCat("the pod has no ", name, " namespace"));
  return given;
}

Result<model::NamespacePlan> CompileNamespaces(const model::ContainerSpec& spec,
                                               const ContainerInput& input) {
  const model::NamespaceSpec& wanted = spec.namespaces;
  model::NamespacePlan plan;
  ASSIGN_OR_RETURN(plan.network, PodNamespace(wanted.network, input.network_namespace, "network"));
  ASSIGN_OR_RETURN(plan.ipc, PodNamespace(wanted.ipc, input.ipc_namespace, "ipc"));
  ASSIGN_OR_RETURN(plan.uts, PodNamespace(wanted.uts, input.uts_namespace, "uts"));
  ASSIGN_OR_RETURN(plan.pid, PodNamespace(wanted.pid, input.pid_namespace, "pid"));
  plan.new_pid = wanted.pid == model::NamespaceMode::kContainer;
  // A privileged container manages the host's cgroups, so it must see them.
  plan.new_cgroup = !spec.security.privileged;
  plan.new_time = wanted.private_time;
  return plan;
}

// hostUsers: false. Its cgroup namespace is always its own: the host's is out of its reach.
Result<void> CompileUserNamespace(const model::ContainerSpec& spec, const ContainerInput& input,
                                  model::LaunchPlan& plan) {
  const bool has_namespace = input.user_namespace != model::kNoFd;
  if (!has_namespace && input.user_map.empty()) return {};
  // One without the other would be a container with the ids of the host.
  if (!has_namespace) return Unavailable("the pod has lost its user namespace");
  if (input.user_map.empty()) {
    return Unavailable("the ids of the pod's user namespace are not known");
  }
  if (!spec.devices.empty()) {
    return Unsupported("block devices (volumeDevices) cannot be given with hostUsers: false");
  }
  plan.namespaces.user = input.user_namespace;
  plan.namespaces.new_cgroup = true;
  ASSIGN_OR_RETURN(plan.root.owner, OnHost(input.user_map, 0));
  plan.host_devices = input.host_devices;
  return {};
}

}  // namespace

Result<uint32_t> OnHost(const std::vector<model::IdMapEntry>& map, uint32_t id) {
  if (map.empty()) return id;
  for (const model::IdMapEntry& entry : map) {
    if (id >= entry.inside && id - entry.inside < entry.count) {
      return entry.outside + (id - entry.inside);
    }
  }
  return InvalidArgument(StrCat("id ", id, " is not mapped in the pod's user namespace, which has ",
                                map.front().count, " ids (hostUsers: false)"));
}

Result<model::LaunchPlan> CompileContainer(const model::ContainerSpec& spec,
                                           const sys::HostFacts& facts,
                                           const ContainerInput& input) {
  model::LaunchPlan plan;
  ASSIGN_OR_RETURN(plan.namespaces, CompileNamespaces(spec, input));
  plan.cgroup = input.process.cgroup;
  plan.root = {spec.root_fs.layers, spec.root_fs.scratch, spec.root_fs.read_only};
  RETURN_IF_ERROR(CompileFilesystem(spec, input.filesystem, plan));
  RETURN_IF_ERROR(CompileUserNamespace(spec, input, plan));
  plan.selinux = input.process.labels.mount;
  ASSIGN_OR_RETURN(plan.process, CompileProcess(spec, facts, input.process, spec.tty));
  plan.process.argv = spec.argv;
  return plan;
}

Result<model::ExecPlan> CompileExec(const model::ContainerSpec& spec, const ExecSpec& exec,
                                    const sys::HostFacts& facts, const ProcessInput& input,
                                    model::FdIndex target, bool own_users) {
  model::ExecPlan plan;
  plan.target = target;
  plan.join_user = own_users;
  plan.shares_pid_namespace = spec.namespaces.pid != model::NamespaceMode::kContainer;
  plan.cgroup = input.cgroup;
  ASSIGN_OR_RETURN(plan.process, CompileProcess(spec, facts, input, exec.tty));
  plan.process.argv = exec.argv;
  plan.process.stdio.rows = exec.rows;
  plan.process.stdio.columns = exec.columns;
  return plan;
}

}  // namespace holdfast::runtime
