// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/prepare.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "runtime/plan/capabilities.h"
#include "runtime/plan/environment.h"
#include "runtime/plan/filesystem.h"
#include "runtime/plan/layered_root.h"
#include "runtime/plan/limits.h"
#include "runtime/plan/sandbox.h"
#include "runtime/plan/seccomp.h"
#include "runtime/plan/sources.h"
#include "runtime/plan/user.h"
#include "runtime/plan/wire_check.h"

namespace holdfast::runtime {
namespace {

using Phase = StartFailure::Phase;

constexpr size_t kMaxMountInfo = 16 << 20;

std::unexpected<StartFailure> Failed(Phase phase, Error error) {
  return std::unexpected(StartFailure{phase, std::move(error)});
}

// The list of descriptors that grows with the plan.
class FdList {
 public:
  explicit FdList(PreparedPlan& plan) : plan_(plan) {}
  // kNoFd for -1.
  model::FdIndex Borrow(int fd) {
    if (fd < 0) return model::kNoFd;
    plan_.fds.push_back(fd);
    return static_cast<model::FdIndex>(plan_.fds.size()) - 1;
  }
  model::FdIndex Own(UniqueFd fd) {
    plan_.owned.push_back(std::move(fd));
    return Borrow(plan_.owned.back().get());
  }

 private:
  PreparedPlan& plan_;
};

model::StdioPlan CompileStdio(const PodDescriptors& pod, bool tty, FdList& fds) {
  model::StdioPlan stdio;
  stdio.tty = tty;
  if (tty) return stdio;
  stdio.in = fds.Borrow(pod.standard_input);
  stdio.out = fds.Borrow(pod.standard_output);
  stdio.err = fds.Borrow(pod.standard_error);
  return stdio;
}

model::CgroupPlan CompileCgroup(const PodDescriptors& pod, FdList& fds) {
  model::CgroupPlan cgroup;
  cgroup.unified = fds.Borrow(pod.cgroup_unified);
  for (const CgroupDirectory& directory : pod.cgroup_v1) {
    cgroup.attach.push_back(fds.Borrow(directory.fd));
  }
  return cgroup;
}

// Missing is "", as in an image without accounts; anything else that is wrong is an error.
Result<std::string> ReadAccounts(const LayeredRoot& root, const char* path) {
  auto text = root.ReadFile(path, kMaxUserFileBytes);
  if (!text && text.error().code() == Code::kNotFound) return std::string();
  return text;
}

std::expected<ResolvedUser, StartFailure> FindUser(const model::ContainerSpec& spec) {
  auto root = LayeredRoot::Open(spec.root_fs.layers);
  if (!root) return Failed(Phase::kCreate, std::move(root.error()));
  auto passwd = ReadAccounts(*root, "etc/passwd");
  if (!passwd) return Failed(Phase::kCreate, std::move(passwd.error()));
  auto group = ReadAccounts(*root, "etc/group");
  if (!group) return Failed(Phase::kCreate, std::move(group.error()));
  const std::string who = StrCat("pod: \"", spec.pod_name, "_", spec.pod_namespace, "(",
                                 spec.pod_uid.value, ")\", container: ", spec.name);
  return ResolveUser(spec.user, *passwd, *group, who);
}

// Everything of a process but its argv, cwd and streams: the same for the container's first process
// and for every exec.
Result<model::ProcessPlan> CompileProcess(const model::ContainerSpec& spec,
                                          const ResolvedUser& user, bool tty,
                                          const sys::HostFacts& facts,
                                          std::vector<std::string>& warnings) {
  model::ProcessPlan process;
  ASSIGN_OR_RETURN(process.env, CompileEnvironment(spec.env, {spec.hostname, user.home, tty}));
  process.cwd = spec.working_dir.empty() ? "/" : spec.working_dir;
  process.uid = user.uid;
  process.gid = user.gid;
  process.groups = user.groups;
  ASSIGN_OR_RETURN(const uint64_t capabilities,
                   CompileCapabilities(spec.security, facts, warnings));
  process.capabilities.bounding = capabilities;
  process.capabilities.effective = capabilities;
  process.capabilities.permitted = capabilities;
  process.no_new_privs = !spec.security.allow_privilege_escalation && !spec.security.privileged;
  ASSIGN_OR_RETURN(process.seccomp, CompileSeccomp(spec.security, capabilities));
  ASSIGN_OR_RETURN(process.rlimits, CompileRlimits(spec.rlimits, facts));
  process.oom_score_adj = spec.resources.oom_score_adj;
  return process;
}

// The id that `id` of the pod has on the host.
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

Result<void> FillUser(const ResolvedUser& user, const PodDescriptors& pod, PreparedPlan& out) {
  out.user = {user.uid, user.gid, user.groups};
  ASSIGN_OR_RETURN(out.host_uid, OnHost(pod.user_map, user.uid));
  ASSIGN_OR_RETURN(out.host_gid, OnHost(pod.user_map, user.gid));
  for (const uint32_t group : user.groups) RETURN_IF_ERROR(OnHost(pod.user_map, group));
  return {};
}

Result<model::FdIndex> PodNamespace(model::NamespaceMode mode, int fd, const char* name,
                                    FdList& fds) {
  if (mode != model::NamespaceMode::kPod) return model::kNoFd;
  if (fd < 0) return Unavailable(StrCat("the pod has no ", name, " namespace"));
  return fds.Borrow(fd);
}

Result<model::NamespacePlan> CompileNamespaces(const model::ContainerSpec& spec,
                                               const PodDescriptors& pod, FdList& fds) {
  const model::NamespaceSpec& wanted = spec.namespaces;
  model::NamespacePlan plan;
  ASSIGN_OR_RETURN(plan.network,
                   PodNamespace(wanted.network, pod.network_namespace, "network", fds));
  ASSIGN_OR_RETURN(plan.ipc, PodNamespace(wanted.ipc, pod.ipc_namespace, "ipc", fds));
  ASSIGN_OR_RETURN(plan.uts, PodNamespace(wanted.uts, pod.uts_namespace, "uts", fds));
  ASSIGN_OR_RETURN(plan.pid, PodNamespace(wanted.pid, pod.pid_namespace, "pid", fds));
  plan.new_pid = wanted.pid == model::NamespaceMode::kContainer;
  // A privileged container manages the host's cgroups, so it must see them.
  plan.new_cgroup = !spec.security.privileged;
  plan.new_time = wanted.private_time;
  return plan;
}

Result<FilesystemInput> OpenFilesystemInput(const model::ContainerSpec& spec,
                                            const PodDescriptors& pod, FdList& fds) {
  FilesystemInput input;
  for (const model::MountSpec& mount : spec.mounts) {
    if (mount.kind == model::MountSpec::Kind::kTmpfs) {
      input.volumes.push_back(model::kNoFd);
      continue;
    }
    auto volume = OpenVolume(mount);
    if (!volume) return std::move(volume.error()).Wrap(StrCat("volume for ", mount.destination));
    input.volumes.push_back(fds.Own(std::move(*volume)));
  }
  if (spec.namespaces.ipc == model::NamespaceMode::kHost) {
    ASSIGN_OR_RETURN(MountFd shm, sys::CloneTree(AT_FDCWD, "/dev/shm", false));
    input.shm = fds.Own(std::move(shm));
    input.shm_is_bind = true;
  } else {
    input.shm = fds.Borrow(pod.shm);
  }
  if (spec.namespaces.pid == model::NamespaceMode::kPod) {
    if (pod.procfs < 0) {
      return Unavailable(
          "the pod has no procfs of its shared pid namespace (its sandbox was made by an earlier "
          "version): delete the pod and create it again");
    }
    input.procfs = fds.Borrow(pod.procfs);
  }
  for (const CgroupDirectory& directory : pod.cgroup_v1) {
    if (!directory.name.empty()) input.cgroup_v1.push_back({directory.name, directory.options});
  }
  input.cgroup_unified = pod.cgroup_unified >= 0 && input.cgroup_v1.empty();
  if (spec.security.privileged) {
    ASSIGN_OR_RETURN(input.host_devices, ListHostDevices());
    ASSIGN_OR_RETURN(const std::string mounts,
                     sys::ReadFileAt(AT_FDCWD, "/proc/self/mountinfo", kMaxMountInfo));
    input.cgroup2_options = Cgroup2Options(mounts);
  } else {
    // Looked for once: a machine with hundreds of CPUs pays for it at its first container only.
    static const std::vector<std::string> throttle_paths = ThrottlePaths();
    input.throttle_paths = throttle_paths;
  }
  return input;
}

Result<void> GiveToRoot(const PodDescriptors& pod, int file, const std::string& path) {
  ASSIGN_OR_RETURN(const uint32_t root, OnHost(pod.user_map, 0));
  if (::fchownat(file, "", root, root, AT_EMPTY_PATH) == 0) return {};
  return Error::FromErrno(errno, StrCat("chown ", path));
}

// What one file system cannot do must not end as a volume with the owners of the host.
Result<void> MapVolumes(const model::ContainerSpec& spec, const FilesystemInput& input,
                        const PodDescriptors& pod, const std::vector<int>& fds) {
  if (pod.user_namespace < 0) return {};
  for (size_t i = 0; i < spec.mounts.size(); ++i) {
    if (input.volumes[i] == model::kNoFd) continue;
    const int volume = fds[static_cast<size_t>(input.volumes[i])];
    if (spec.mounts[i].kind == model::MountSpec::Kind::kGenerated) {
      RETURN_IF_ERROR(GiveToRoot(pod, volume, spec.mounts[i].source));
      continue;
    }
    auto mapped = sys::SetIdMap(volume, pod.user_namespace, true);
    if (mapped) continue;
    Error error = std::move(mapped.error()).Wrap(StrCat("volume for ", spec.mounts[i].destination));
    if (error.sys_errno() != EINVAL && error.sys_errno() != EOPNOTSUPP) return error;
    return Unsupported(StrCat(error.message(), ": the file system of ", spec.mounts[i].source,
                              ", or one mounted below it, cannot be mounted with an id map on this "
                              "kernel, which hostUsers: false needs"));
  }
  return {};
}

// hostUsers: false. Its cgroup namespace is always its own: the host's is out of its reach.
Result<void> CompileUserNamespace(const PodDescriptors& pod, FdList& fds, model::LaunchPlan& plan) {
  if (pod.user_namespace < 0 && pod.user_map.empty()) return {};
  // One without the other would be a container with the ids of the host.
  if (pod.user_namespace < 0) return Unavailable("the pod has lost its user namespace");
  if (pod.user_map.empty()) return Unavailable("the ids of the pod's user namespace are not known");
  plan.namespaces.user = fds.Borrow(pod.user_namespace);
  plan.namespaces.new_cgroup = true;
  ASSIGN_OR_RETURN(plan.root.owner, OnHost(pod.user_map, 0));
  ASSIGN_OR_RETURN(MountFd devices, sys::CloneTree(AT_FDCWD, "/dev", true));
  plan.host_devices = fds.Own(std::move(devices));
  return {};
}

Result<void> CompileContainer(const model::ContainerSpec& spec, const sys::HostFacts& facts,
                              const PodDescriptors& pod, const ResolvedUser& user,
                              PreparedPlan& out) {
  if (spec.argv.empty()) return InvalidArgument("no command specified");
  FdList fds(out);
  model::LaunchPlan plan;
  ASSIGN_OR_RETURN(plan.namespaces, CompileNamespaces(spec, pod, fds));
  plan.cgroup = CompileCgroup(pod, fds);
  plan.root = {spec.root_fs.layers, spec.root_fs.scratch, spec.root_fs.read_only};
  ASSIGN_OR_RETURN(const FilesystemInput input, OpenFilesystemInput(spec, pod, fds));
  RETURN_IF_ERROR(MapVolumes(spec, input, pod, out.fds));
  RETURN_IF_ERROR(CompileFilesystem(spec, input, plan));
  RETURN_IF_ERROR(CompileUserNamespace(pod, fds, plan));
  ASSIGN_OR_RETURN(plan.process, CompileProcess(spec, user, spec.tty, facts, out.warnings));
  plan.process.argv = spec.argv;
  plan.process.stdio = CompileStdio(pod, spec.tty, fds);
  out.plan = std::move(plan);
  return CheckPlan(out.plan);
}

Result<void> CompileExec(const model::ContainerSpec& spec, const ExecSpec& exec,
                         const sys::HostFacts& facts, const PodDescriptors& pod, int target,
                         const ResolvedUser& user, PreparedPlan& out) {
  if (exec.argv.empty()) return InvalidArgument("no command specified");
  FdList fds(out);
  model::ExecPlan plan;
  plan.target = fds.Borrow(target);
  plan.join_user = !pod.user_map.empty();
  plan.shares_pid_namespace = spec.namespaces.pid != model::NamespaceMode::kContainer;
  plan.cgroup = CompileCgroup(pod, fds);
  ASSIGN_OR_RETURN(plan.process, CompileProcess(spec, user, exec.tty, facts, out.warnings));
  plan.process.argv = exec.argv;
  plan.process.stdio = CompileStdio(pod, exec.tty, fds);
  plan.process.stdio.rows = exec.rows;
  plan.process.stdio.columns = exec.columns;
  out.plan = std::move(plan);
  return CheckPlan(out.plan);
}

}  // namespace

std::expected<PreparedPlan, StartFailure> PrepareContainer(const model::ContainerSpec& spec,
                                                           const sys::HostFacts& facts,
                                                           const PodDescriptors& pod) {
  auto user = FindUser(spec);
  if (!user) return std::unexpected(std::move(user.error()));
  PreparedPlan prepared;
  if (auto filled = FillUser(*user, pod, prepared); !filled) {
    return Failed(Phase::kConfig, std::move(filled.error()));
  }
  if (auto done = CompileContainer(spec, facts, pod, *user, prepared); !done) {
    return Failed(Phase::kCreate, std::move(done.error()));
  }
  return prepared;
}

std::expected<PreparedPlan, StartFailure> PrepareExec(const model::ContainerSpec& spec,
                                                      const ExecSpec& exec,
                                                      const sys::HostFacts& facts,
                                                      const PodDescriptors& pod, int target) {
  auto user = FindUser(spec);
  if (!user) return std::unexpected(std::move(user.error()));
  PreparedPlan prepared;
  if (auto filled = FillUser(*user, pod, prepared); !filled) {
    return Failed(Phase::kConfig, std::move(filled.error()));
  }
  if (auto done = CompileExec(spec, exec, facts, pod, target, *user, prepared); !done) {
    return Failed(Phase::kCreate, std::move(done.error()));
  }
  return prepared;
}

Result<PreparedPlan> PrepareSandbox(const model::SandboxSpec& spec, const sys::HostFacts&,
                                    const PodDescriptors& pod, int init_binary) {
  PreparedPlan prepared;
  FdList fds(prepared);
  ASSIGN_OR_RETURN(model::SandboxPlan plan, CompileSandbox(spec));
  if (!spec.host_users && pod.user_map.empty()) return InvalidArgument("hostUsers: false: no ids");
  plan.uid_map = plan.gid_map = pod.user_map;
  if (spec.share_process_namespace) {
    plan.init_binary = fds.Borrow(init_binary);
    if (plan.init_binary == model::kNoFd)
      return InvalidArgument("shared processes: no init binary");
    plan.init_cgroup = CompileCgroup(pod, fds);
  }
  prepared.plan = std::move(plan);
  RETURN_IF_ERROR(CheckPlan(prepared.plan));
  return prepared;
}

}  // namespace holdfast::runtime
