// SPDX-License-Identifier: Apache-2.0
// The namespaces that the containers of a pod share.
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "runtime/launch/protocol.h"
#include "runtime/launch/steps.h"
#include "runtime/launch/target.h"

namespace holdfast::runtime {
namespace {

Result<MountFd> NewSharedMemory(uint64_t size_bytes) {
  ASSIGN_OR_RETURN(const UniqueFd context, sys::OpenFilesystem("tmpfs"));
  RETURN_IF_ERROR(sys::SetOption(context.get(), "mode", "1777"));
  RETURN_IF_ERROR(sys::SetOption(context.get(), "size", std::to_string(size_bytes)));
  return sys::CreateMount(context.get(), {.no_suid = true, .no_dev = true, .no_exec = true});
}

// A mount namespace that shows `mount` as its root, for kernels that cannot copy a detached mount.
Result<int> NamespaceShowing(const Child& child, int mount) {
  if (::unshare(CLONE_NEWNS) != 0) return Error::FromErrno(errno, "unshare mount namespace");
  RETURN_IF_ERROR(sys::MakeMountsPrivate());
  RETURN_IF_ERROR(sys::AttachMountAt(mount, AT_FDCWD, "/", "/"));
  ASSIGN_OR_RETURN(UniqueFd name_space, sys::OpenAt(child.proc(), "self/ns/mnt", O_RDONLY));
  return KeepOpen(std::move(name_space));
}

// What CopySharedMounts takes.
Result<int> Shareable(const Child& child, MountFd mount) {
  if (child.facts().open_tree_detached) return KeepOpen(std::move(mount));
  return NamespaceShowing(child, mount.get());
}

}  // namespace

Result<void> MakeSandboxNamespaces(Child&, const model::SandboxPlan& plan) {
  // Cloned into the new user namespace, whose maps are written by now. Its root may mount nothing
  // in the launcher's mount namespace.
  const bool own_users = !plan.uid_map.empty();
  if (own_users) RETURN_IF_ERROR(BecomeNamespaceRoot());
  const int flags = (own_users ? CLONE_NEWNS : 0) | (plan.network ? CLONE_NEWNET : 0) |
                    (plan.ipc ? CLONE_NEWIPC : 0) | (plan.uts ? CLONE_NEWUTS : 0);
  if (flags != 0 && ::unshare(flags) != 0) {
    return Error::FromErrno(errno, "unshare the pod's namespaces");
  }
  if (plan.hostname.empty()) return {};
  if (::sethostname(plan.hostname.data(), plan.hostname.size()) != 0) {
    return Error::FromErrno(errno, StrCat("sethostname ", plan.hostname));
  }
  return {};
}

Result<void> RaiseLoopback(Child&, const model::SandboxPlan& plan) {
  if (!plan.network) return {};
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return Error::FromErrno(errno, "socket");
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) {
    return Error::FromErrno(errno, "SIOCSIFFLAGS lo");
  }
  return {};
}

Result<void> WriteSysctls(Child& child, const model::SandboxPlan& plan) {
  for (const auto& [name, value] : plan.sysctls) {
    // The launcher's procfs shows the sysctls of the namespaces of whoever opens them.
    ASSIGN_OR_RETURN(const UniqueFd file,
                     sys::OpenInside(child.proc(), StrCat("sys/", name), O_WRONLY | O_NOFOLLOW, 0,
                                     sys::Resolve::kBeneath));
    if (::write(file.get(), value.data(), value.size()) < 0) {
      return Error::FromErrno(errno, StrCat("write \"", value, "\" to sysctl ", name));
    }
  }
  return {};
}

// The procfs first: what shows the shared memory covers the one beside which alone another may be
// mounted in a user namespace.
Result<void> MakeSharedMounts(Child& child, const model::SandboxPlan& plan) {
  if (plan.init_binary != model::kNoFd) {
    // Of the init's pid namespace, which this child is the first process of.
    ASSIGN_OR_RETURN(MountFd procfs, NewProcfs());
    ASSIGN_OR_RETURN(child.procfs, Shareable(child, std::move(procfs)));
  }
  if (plan.shm_size_bytes != 0) {
    ASSIGN_OR_RETURN(MountFd memory, NewSharedMemory(plan.shm_size_bytes));
    ASSIGN_OR_RETURN(child.shared_memory, Shareable(child, std::move(memory)));
  }
  return {};
}

Result<void> HandOverNamespaces(Child& child, const model::SandboxPlan& plan) {
  struct Entry {
    bool wanted;
    char letter;
    const char* name;
  };
  const Entry entries[] = {{plan.network, 'n', "self/ns/net"},
                           {plan.ipc, 'i', "self/ns/ipc"},
                           {plan.uts, 'u', "self/ns/uts"},
                           {!plan.uid_map.empty(), 'U', "self/ns/user"},
                           {plan.init_binary != model::kNoFd, 'p', "self/ns/pid"}};
  std::vector<int> fds;
  std::string letters;
  for (const Entry& entry : entries) {
    if (!entry.wanted) continue;
    ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenAt(child.proc(), entry.name, O_RDONLY));
    fds.push_back(KeepOpen(std::move(fd)));
    letters.push_back(entry.letter);
  }
  if (child.shared_memory >= 0) {
    fds.push_back(child.shared_memory);
    letters.push_back('s');
  }
  if (child.procfs >= 0) {
    fds.push_back(child.procfs);
    letters.push_back('P');
  }
  return ReportDescriptors(child.socket(), ReportKind::kSandbox, letters, fds);
}

Result<void> EmptyInitsRoot(Child&, const model::SandboxPlan& plan) {
  if (plan.init_binary == model::kNoFd) return {};
  if (::unshare(CLONE_NEWNS) != 0) return Error::FromErrno(errno, "unshare mount namespace");
  RETURN_IF_ERROR(sys::MakeMountsPrivate());
  ASSIGN_OR_RETURN(const MountFd root, NewEmptyRoot());
  RETURN_IF_ERROR(sys::SetMountAttributes(root.get(), {.read_only = true}, false));
  RETURN_IF_ERROR(sys::AttachMountAt(root.get(), AT_FDCWD, "/", "/"));
  return sys::PivotInto(root.get());
}

Result<void> ConfineInit(Child& child, const model::SandboxPlan& plan) {
  if (plan.init_binary == model::kNoFd) return {};
  // Streams on /dev/null, no capability, no way to gain one.
  model::ProcessPlan process;
  process.no_new_privs = true;
  RETURN_IF_ERROR(ArrangeStreams(child, process));
  RETURN_IF_ERROR(DropInheritance(child, process));
  process.selinux = plan.init_selinux;
  RETURN_IF_ERROR(SetSelinux(child, process));
  ASSIGN_OR_RETURN(child.init_binary, CloseDescriptorsBut(child, child.Fd(plan.init_binary)));
  RETURN_IF_ERROR(ResetScheduling(child, process));
  RETURN_IF_ERROR(LeadSession(child, process));
  return TakeIdentity(child, process);
}

Result<void> ExecuteInit(Child& child, const model::SandboxPlan& plan) {
  if (plan.init_binary == model::kNoFd) return {};
  ReportPlain(child.socket(), ReportKind::kExecuting);
  char name[] = "holdfast-init";
  char* const argv[] = {name, nullptr};
  char* const env[] = {nullptr};
  ::fexecve(child.init_binary, argv, env);
  return Error::FromErrno(errno, "exec init");
}

}  // namespace holdfast::runtime
