// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/plan/wire.h"

namespace holdfast::runtime {
namespace {

const char* NameOf(Controller controller) {
  switch (controller) {
    case Controller::kCpu:
      return "cpu";
    case Controller::kCpuAcct:
      return "cpuacct";
    case Controller::kMemory:
      return "memory";
    case Controller::kPids:
      return "pids";
    case Controller::kDevices:
      return "devices";
    case Controller::kHugetlb:
      return "hugetlb";
  }
  return "";
}

// What mount(2) needs to mount the hierarchy once more: "cpu,cpuacct".
std::string MountOptions(const CgroupHierarchy& hierarchy) {
  std::string options;
  for (const Controller controller : hierarchy.controllers) {
    if (!options.empty()) options += ',';
    options += NameOf(controller);
  }
  return options;
}

// CLONE_INTO_CGROUP does not take an O_PATH descriptor.
Result<void> AddUnified(const DirFd& dir, PodDescriptors& pod, std::vector<UniqueFd>& owned) {
  ASSIGN_OR_RETURN(UniqueFd readable, sys::OpenAt(dir.get(), ".", O_RDONLY | O_DIRECTORY));
  pod.cgroup_unified = readable.get();
  owned.push_back(std::move(readable));
  return {};
}

Result<void> AddLimited(const CgroupLayout& layout, const Cgroup& cgroup, const Cgroup& container,
                        PodDescriptors& pod, std::vector<UniqueFd>& owned) {
  if (layout.version == CgroupVersion::kV2) {
    return AddUnified(cgroup.dirs[0], pod, owned);
  }
  for (size_t i = 0; i < layout.WithLimits(); ++i) {
    const CgroupHierarchy& hierarchy = layout.hierarchies[i];
    const std::string& mount = hierarchy.mount_point;
    const DirFd& dir = cgroup.dirs[i] ? cgroup.dirs[i] : container.dirs[i];
    pod.cgroup_v1.push_back(
        {dir.get(), MountOptions(hierarchy), mount.substr(mount.rfind('/') + 1)});
  }
  return {};
}

Result<void> AddShared(const CgroupLayout& layout, const std::vector<DirFd>& shared,
                       PodDescriptors& pod, std::vector<UniqueFd>& owned) {
  for (size_t i = 0; i < shared.size(); ++i) {
    if (layout.hierarchies[layout.WithLimits() + i].unified) {
      RETURN_IF_ERROR(AddUnified(shared[i], pod, owned));
    } else {
      pod.cgroup_v1.push_back({shared[i].get(), "", ""});
    }
  }
  return {};
}

}  // namespace

Result<void> AddCgroup(const CgroupLayout& layout, const Cgroup& cgroup, const Cgroup& container,
                       PodDescriptors& pod, std::vector<UniqueFd>& owned) {
  RETURN_IF_ERROR(AddLimited(layout, cgroup, container, pod, owned));
  return AddShared(layout, container.shared, pod, owned);
}

Result<void> GiveStreams(const PodDescriptors& pod, const PreparedPlan& prepared) {
  if (pod.user_map.empty()) return {};
  for (const int fd : {pod.standard_input, pod.standard_output, pod.standard_error}) {
    if (fd >= 0 && ::fchown(fd, prepared.host_uid, prepared.host_gid) != 0) {
      return Error::FromErrno(errno, "chown standard stream");
    }
  }
  return {};
}

Error ExplainLaunch(Parts& parts, const PodUid& uid, model::QosClass qos,
                    const keeper::LaunchFailure& failure) {
  Error error = failure.ToError();
  if (failure.sys_errno != EAGAIN) return error;
  const auto reached = parts.cgroups->PidsLimitReached(uid, qos);
  if (!reached || reached->empty()) return error;
  return std::move(error).Wrap(*reached);
}

std::string StdinKey(const ContainerId& id) { return "stdin." + id.value; }

Result<UniqueFd> OpenNamespace(const TableEntry& container, const char* name) {
  return sys::OpenAt(AT_FDCWD, StrCat("/proc/", container.start.pid, "/ns/", name),
                     O_RDONLY | O_CLOEXEC);
}

Result<UniqueFd> SealPlan(const model::Plan& plan) {
  return sys::SealedMemfd("holdfast-plan", SerializePlan(plan));
}

}  // namespace holdfast::runtime
