// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/sandbox_recovery.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/process.h"
#include "runtime/containers/sandboxes.h"

namespace holdfast::runtime {
namespace {

Result<UniqueFd> OpenNamespaceOf(const TableEntry& container, const char* name) {
  return sys::OpenAt(AT_FDCWD, StrCat("/proc/", container.start.pid, "/ns/", name),
                     O_RDONLY | O_CLOEXEC);
}

bool HasPodsShm(Parts& parts, const TableEntry& container) {
  const auto record = parts.state.Container(container.id);
  return record && std::ranges::none_of(record->spec.mounts, [](const model::MountSpec& mount) {
           return mount.destination == "/dev/shm";
         });
}

// One that has the pod's /dev/shm, if there is one.
std::optional<TableEntry> FindSource(Parts& parts, const PodUid& uid) {
  std::optional<TableEntry> found;
  for (TableEntry& entry : parts.table.OfPod(uid)) {
    if (!entry.process || entry.exit) continue;
    if (HasPodsShm(parts, entry)) return std::move(entry);
    if (!found) found = std::move(entry);
  }
  return found;
}

// The only process of its cgroup.
Result<PidFd> OpenInit(Parts& parts, const model::SandboxSpec& spec) {
  ASSIGN_OR_RETURN(Cgroup opened,
                   parts.cgroups->OpenContainer(spec.uid, spec.qos, ContainerId(kInitCgroup)));
  const Cgroup cgroup = TakeGrouping(parts.cgroups->backend().layout(), opened);
  ASSIGN_OR_RETURN(const std::vector<pid_t> pids, Processes(cgroup));
  if (pids.empty()) return NotFound(StrCat("pod ", spec.uid.value, ": its init has ended"));
  return sys::OpenPidFd(pids.front());
}

}  // namespace

Result<std::vector<keeper::KeptFd>> RecoverSandbox(Parts& parts, const model::SandboxSpec& spec) {
  std::vector<keeper::KeptFd> found;
  const auto source = FindSource(parts, spec.uid);
  if (!source) return found;
  const auto take = [&](const char* key, const char* ns) -> Result<void> {
    ASSIGN_OR_RETURN(UniqueFd fd, OpenNamespaceOf(*source, ns));
    found.push_back({key, std::move(fd)});
    return {};
  };
  if (!spec.host_network) {
    RETURN_IF_ERROR(take("net", "net"));
    RETURN_IF_ERROR(take("uts", "uts"));
  }
  if (!spec.host_ipc) RETURN_IF_ERROR(take("ipc", "ipc"));
  if (!spec.host_ipc && spec.shm_size_bytes > 0 && HasPodsShm(parts, *source)) {
    RETURN_IF_ERROR(take("shm", "mnt"));
  }
  if (!spec.host_users) RETURN_IF_ERROR(take("user", "user"));
  if (spec.share_process_namespace) {
    RETURN_IF_ERROR(take("pid", "pid"));
    RETURN_IF_ERROR(take("proc", "mnt"));
    ASSIGN_OR_RETURN(PidFd init, OpenInit(parts, spec));
    found.push_back({"init", UniqueFd(init.Release())});
  }
  // As long as it runs, its number was nobody else's while these were opened.
  if (HasEnded(*source))
    return Unavailable(StrCat("container ", source->id.value, " has just ended"));
  return found;
}

}  // namespace holdfast::runtime
