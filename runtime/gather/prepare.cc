// SPDX-License-Identifier: Apache-2.0
#include "runtime/gather/prepare.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "runtime/gather/app_armor.h"
#include "runtime/gather/layered_root.h"
#include "runtime/gather/seccomp.h"
#include "runtime/gather/selinux.h"
#include "runtime/gather/sources.h"
#include "runtime/plan/capabilities.h"
#include "runtime/plan/compile.h"
#include "runtime/plan/sandbox.h"
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

model::CgroupPlan BorrowCgroup(const PodDescriptors& pod, FdList& fds) {
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

Result<void> FillUser(const ResolvedUser& user, const PodDescriptors& pod, PreparedPlan& out) {
  out.user = {user.uid, user.gid, user.groups};
  ASSIGN_OR_RETURN(out.host_uid, OnHost(pod.user_map, user.uid));
  ASSIGN_OR_RETURN(out.host_gid, OnHost(pod.user_map, user.gid));
  for (const uint32_t group : user.groups) RETURN_IF_ERROR(OnHost(pod.user_map, group));
  return {};
}

// Labelled before anybody can see it.
Result<MountFd> OpenLabelledVolume(const model::MountSpec& mount, const std::string& label) {
  const bool is_generated = mount.kind == model::MountSpec::Kind::kGenerated;
  if (mount.relabel) RETURN_IF_ERROR(RelabelVolume(mount, label));
  ASSIGN_OR_RETURN(MountFd volume, OpenVolume(mount));
  if (mount.relabel || is_generated) RETURN_IF_ERROR(Relabel(volume.get(), label));
  return volume;
}

Result<FilesystemInput> OpenFilesystemInput(const model::ContainerSpec& spec,
                                            const PodDescriptors& pod, const std::string& label,
                                            FdList& fds) {
  FilesystemInput input;
  for (const model::MountSpec& mount : spec.mounts) {
    if (mount.kind == model::MountSpec::Kind::kTmpfs) {
      input.volumes.push_back(model::kNoFd);
      continue;
    }
    auto volume = OpenLabelledVolume(mount, label);
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

// Of the pod's, what the spec says it joins: nothing else travels.
model::FdIndex BorrowNamespace(model::NamespaceMode mode, int fd, FdList& fds) {
  return mode == model::NamespaceMode::kPod ? fds.Borrow(fd) : model::kNoFd;
}

Result<ProcessInput> GatherProcess(const model::ContainerSpec& spec, const sys::HostFacts& facts,
                                   const PodDescriptors& pod, const ResolvedUser& user, bool tty,
                                   PreparedPlan& out) {
  FdList fds(out);
  ProcessInput input;
  input.user = user;
  ASSIGN_OR_RETURN(input.capabilities, CompileCapabilities(spec.security, facts, out.warnings));
  ASSIGN_OR_RETURN(input.seccomp, SeccompOf(spec.security, input.capabilities));
  ASSIGN_OR_RETURN(input.labels, FindSelinuxLabels(spec.security.selinux, pod.selinux_level,
                                                   spec.security.privileged));
  input.cgroup = BorrowCgroup(pod, fds);
  if (tty) return input;
  input.standard_input = fds.Borrow(pod.standard_input);
  input.standard_output = fds.Borrow(pod.standard_output);
  input.standard_error = fds.Borrow(pod.standard_error);
  return input;
}

Result<ContainerInput> GatherContainer(const model::ContainerSpec& spec,
                                       const sys::HostFacts& facts, const PodDescriptors& pod,
                                       const ResolvedUser& user, PreparedPlan& out) {
  FdList fds(out);
  ContainerInput input;
  input.network_namespace = BorrowNamespace(spec.namespaces.network, pod.network_namespace, fds);
  input.ipc_namespace = BorrowNamespace(spec.namespaces.ipc, pod.ipc_namespace, fds);
  input.uts_namespace = BorrowNamespace(spec.namespaces.uts, pod.uts_namespace, fds);
  input.pid_namespace = BorrowNamespace(spec.namespaces.pid, pod.pid_namespace, fds);
  input.user_namespace = fds.Borrow(pod.user_namespace);
  input.user_map = pod.user_map;
  if (pod.user_namespace >= 0) {
    ASSIGN_OR_RETURN(MountFd devices, sys::CloneTree(AT_FDCWD, "/dev", true));
    input.host_devices = fds.Own(std::move(devices));
  }
  ASSIGN_OR_RETURN(input.process, GatherProcess(spec, facts, pod, user, spec.tty, out));
  ASSIGN_OR_RETURN(input.filesystem,
                   OpenFilesystemInput(spec, pod, input.process.labels.mount, fds));
  RETURN_IF_ERROR(MapVolumes(spec, input.filesystem, pod, out.fds));
  return input;
}

Result<void> FillContainer(const model::ContainerSpec& spec, const sys::HostFacts& facts,
                           const PodDescriptors& pod, const ResolvedUser& user, PreparedPlan& out) {
  if (spec.argv.empty()) return InvalidArgument("no command specified");
  if (!spec.security.app_armor_profile.empty()) {
    RETURN_IF_ERROR(FindAppArmorProfile(spec.security.app_armor_profile));
  }
  ASSIGN_OR_RETURN(const ContainerInput input, GatherContainer(spec, facts, pod, user, out));
  ASSIGN_OR_RETURN(out.plan, CompileContainer(spec, facts, input));
  return CheckPlan(out.plan);
}

Result<void> FillExec(const model::ContainerSpec& spec, const ExecSpec& exec,
                      const sys::HostFacts& facts, const PodDescriptors& pod, int target,
                      const ResolvedUser& user, PreparedPlan& out) {
  if (exec.argv.empty()) return InvalidArgument("no command specified");
  const model::FdIndex index = FdList(out).Borrow(target);
  ASSIGN_OR_RETURN(const ProcessInput input, GatherProcess(spec, facts, pod, user, exec.tty, out));
  ASSIGN_OR_RETURN(out.plan, CompileExec(spec, exec, facts, input, index, !pod.user_map.empty()));
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
  if (auto done = FillContainer(spec, facts, pod, *user, prepared); !done) {
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
  if (auto done = FillExec(spec, exec, facts, pod, target, *user, prepared); !done) {
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
    plan.init_cgroup = BorrowCgroup(pod, fds);
    ASSIGN_OR_RETURN(const model::SelinuxLabels labels,
                     FindSelinuxLabels(spec.selinux, pod.selinux_level, false));
    RETURN_IF_ERROR(Relabel(init_binary, labels.mount));
    plan.init_selinux = labels.process;
  }
  prepared.plan = std::move(plan);
  RETURN_IF_ERROR(CheckPlan(prepared.plan));
  return prepared;
}

}  // namespace holdfast::runtime
