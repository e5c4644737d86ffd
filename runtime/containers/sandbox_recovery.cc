// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/sandbox_recovery.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/process.h"
#include "runtime/containers/sandboxes.h"

namespace holdfast::runtime {
namespace {

Result<uint64_t> InodeOf(int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return Error::FromErrno(errno, "fstat namespace");
  return st.st_ino;
}

Result<uint64_t> InodeOfRelated(int ns, unsigned long relation, const char* what) {
  const UniqueFd related(::ioctl(ns, relation));
  if (!related) return Error::FromErrno(errno, what);
  return InodeOf(related.get());
}

// What one container is in. Its first process may have gone into others, of which it is the master: namespaces that belong to
// a user namespace below its pod's are none of the pod's.
class Source {
 public:
  static Result<Source> Of(const TableEntry& container, const model::SandboxSpec& spec) {
    Source source(container);
    ASSIGN_OR_RETURN(const UniqueFd own, sys::OpenAt(AT_FDCWD, "/proc/self/ns/user", O_RDONLY));
    ASSIGN_OR_RETURN(source.node_, InodeOf(own.get()));
    source.owner_ = source.node_;
    if (spec.host_users) return source;
    ASSIGN_OR_RETURN(source.user_, OpenNamespace(container, "user"));
    ASSIGN_OR_RETURN(const uint64_t parent,
                     InodeOfRelated(source.user_.get(), NS_GET_PARENT, "parent of user namespace"));
    if (parent != source.node_) return source.Refused("user");
    ASSIGN_OR_RETURN(source.owner_, InodeOf(source.user_.get()));
    return source;
  }

  // The very one that was looked at, once. Invalid without one.
  UniqueFd TakeUser() { return std::move(user_); }
  Result<UniqueFd> Take(const char* name) const {
    ASSIGN_OR_RETURN(UniqueFd fd, OpenNamespace(container_, name));
    ASSIGN_OR_RETURN(const uint64_t owner,
                     InodeOfRelated(fd.get(), NS_GET_USERNS, "owner of namespace"));
    if (owner != owner_ && owner != node_) return Refused(name);
    return fd;
  }

 private:
  explicit Source(const TableEntry& container) : container_(container) {}
  Error Refused(const char* name) const {
    return Conflict(StrCat("container ", container_.id.value, " is in another ", name,
                           " namespace than its pod"));
  }

  const TableEntry& container_;
  UniqueFd user_;       // the pod's user namespace
  uint64_t node_ = 0;   // our own user namespace
  uint64_t owner_ = 0;  // the pod's, the same without one
};

bool HasPodsShm(Parts& parts, const TableEntry& container) {
  const auto record = parts.state.Container(container.id);
  return record && std::ranges::none_of(record->spec.mounts, [](const model::MountSpec& mount) {
           return mount.destination == "/dev/shm";
         });
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

Result<std::vector<keeper::KeptFd>> RecoverFrom(Parts& parts, const TableEntry& container,
                                                const model::SandboxSpec& spec, bool has_shm) {
  ASSIGN_OR_RETURN(Source source, Source::Of(container, spec));
  std::vector<keeper::KeptFd> found;
  const auto take = [&](const char* key, const char* ns) -> Result<void> {
    ASSIGN_OR_RETURN(UniqueFd fd, source.Take(ns));
    found.push_back({key, std::move(fd)});
    return {};
  };
  if (!spec.host_network) {
    RETURN_IF_ERROR(take("net", "net"));
    RETURN_IF_ERROR(take("uts", "uts"));
  }
  if (!spec.host_ipc) RETURN_IF_ERROR(take("ipc", "ipc"));
  if (!spec.host_ipc && spec.shm_size_bytes > 0 && has_shm) RETURN_IF_ERROR(take("shm", "mnt"));
  if (!spec.host_users) found.push_back({"user", source.TakeUser()});
  if (spec.share_process_namespace) {
    RETURN_IF_ERROR(take("pid", "pid"));
    RETURN_IF_ERROR(take("proc", "mnt"));
    ASSIGN_OR_RETURN(PidFd init, OpenInit(parts, spec));
    found.push_back({"init", UniqueFd(init.Release())});
  }
  // As long as it runs, its number was nobody else's while these were opened.
  if (HasEnded(container)) return NotFound(StrCat("container ", container.id.value, " has ended"));
  return found;
}

}  // namespace

std::vector<keeper::KeptFd> RecoverSandbox(Parts& parts, const model::SandboxSpec& spec) {
  std::vector<TableEntry> containers = parts.table.OfPod(spec.uid);
  std::erase_if(containers, [](const TableEntry& entry) { return !entry.process || entry.exit; });
  // Those first that have the pod's /dev/shm.
  const auto without = std::ranges::partition(containers, [&](const TableEntry& entry) {
                         return HasPodsShm(parts, entry);
                       }).begin();
  for (auto container = containers.begin(); container != containers.end(); ++container) {
    auto found = RecoverFrom(parts, *container, spec, container < without);
    if (found) return std::move(*found);
    if (parts.options.warn) {
      parts.options.warn(
          StrCat("namespaces of pod ", spec.uid.value, ": ", found.error().message()));
    }
  }
  return {};
}

}  // namespace holdfast::runtime
