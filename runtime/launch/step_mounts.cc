// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "runtime/launch/steps.h"
#include "runtime/launch/target.h"

namespace holdfast::runtime {
namespace {

using Kind = model::MountPlan::Kind;
using Propagation = sys::MountAttributes::Propagation;

sys::MountAttributes Attributes(const model::MountPlan& plan) {
  return {.read_only = plan.read_only,
          .no_suid = plan.no_suid,
          .no_dev = plan.no_dev,
          .no_exec = plan.no_exec,
          .strict_atime = plan.strict_atime};
}

std::string Octal(uint32_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", mode);
  return text;
}

Result<void> SetTmpfsOptions(int context, const model::MountPlan& plan) {
  if (plan.mode != 0) RETURN_IF_ERROR(sys::SetOption(context, "mode", Octal(plan.mode)));
  if (plan.size_bytes != 0) {
    RETURN_IF_ERROR(sys::SetOption(context, "size", std::to_string(plan.size_bytes)));
  }
  return {};
}

Result<void> SetDevptsOptions(int context) {
  RETURN_IF_ERROR(sys::SetFlag(context, "newinstance"));
  RETURN_IF_ERROR(sys::SetOption(context, "ptmxmode", "0666"));
  RETURN_IF_ERROR(sys::SetOption(context, "mode", "0620"));
  return sys::SetOption(context, "gid", "5");  // group tty in every distribution
}

// "cpu,cpuacct" or "name=systemd"; of cgroup2 "nsdelegate".
Result<void> SetCgroupOptions(int context, const std::string& options) {
  if (options.starts_with("name=")) {
    RETURN_IF_ERROR(sys::SetFlag(context, "none"));
    return sys::SetOption(context, "name", options.substr(5));
  }
  size_t begin = 0;
  while (begin < options.size()) {
    size_t end = options.find(',', begin);
    if (end == std::string::npos) end = options.size();
    RETURN_IF_ERROR(sys::SetFlag(context, options.substr(begin, end - begin).c_str()));
    begin = end + 1;
  }
  return {};
}

const char* TypeOf(Kind kind) {
  switch (kind) {
    case Kind::kProc:
      return "proc";
    case Kind::kSysfs:
      return "sysfs";
    case Kind::kDevpts:
      return "devpts";
    case Kind::kMqueue:
      return "mqueue";
    case Kind::kCgroup2:
      return "cgroup2";
    case Kind::kCgroup1:
      return "cgroup";
    default:
      return "tmpfs";
  }
}

Result<MountFd> NewFilesystem(const model::MountPlan& plan, const std::string& label) {
  ASSIGN_OR_RETURN(const UniqueFd context, sys::OpenFilesystem(TypeOf(plan.kind)));
  if (plan.kind == Kind::kTmpfs || plan.kind == Kind::kDev) {
    RETURN_IF_ERROR(SetTmpfsOptions(context.get(), plan));
    RETURN_IF_ERROR(SetLabelOfAll(context.get(), label));
  } else if (plan.kind == Kind::kDevpts) {
    RETURN_IF_ERROR(SetDevptsOptions(context.get()));
    RETURN_IF_ERROR(SetLabelOfAll(context.get(), label));
  } else if (plan.kind == Kind::kCgroup1 || plan.kind == Kind::kCgroup2) {
    RETURN_IF_ERROR(SetCgroupOptions(context.get(), plan.options));
  }
  return sys::CreateMount(context.get(), Attributes(plan));
}

Propagation PropagationOf(const model::MountPlan& plan) {
  switch (plan.propagation) {
    case model::MountPlan::Propagation::kPrivate:
      return Propagation::kPrivate;
    case model::MountPlan::Propagation::kSlave:
      return Propagation::kSlave;
    case model::MountPlan::Propagation::kShared:
      return Propagation::kShared;
  }
  return Propagation::kPrivate;
}

// The source came detached; it gets its flags before anybody can see it.
Result<void> PrepareBind(int mount, const model::MountPlan& plan) {
  RETURN_IF_ERROR(sys::SetMountAttributes(mount, {.propagation = PropagationOf(plan)}, true));
  if (plan.recursive_read_only) {
    return sys::SetMountAttributes(mount, {.read_only = true}, true);
  }
  return sys::SetMountAttributes(mount, Attributes(plan), false);
}

Result<bool> IsDirectory(int fd, const std::string& what) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return Error::FromErrno(errno, StrCat("fstat ", what));
  return S_ISDIR(st.st_mode);
}

// On hosts where "cpu" and "cpuacct" are one hierarchy programs look for either name.
Result<void> LinkControllers(int root, const model::MountPlan& plan) {
  if (plan.options.find(',') == std::string::npos) return {};
  const size_t slash = plan.destination.rfind('/');
  const std::string name = plan.destination.substr(slash + 1);
  ASSIGN_OR_RETURN(const DirFd parent,
                   sys::MakeDirsInside(root, plan.destination.substr(0, slash), 0755));
  size_t begin = 0;
  while (begin < plan.options.size()) {
    size_t end = plan.options.find(',', begin);
    if (end == std::string::npos) end = plan.options.size();
    const std::string controller = plan.options.substr(begin, end - begin);
    if (::symlinkat(name.c_str(), parent.get(), controller.c_str()) != 0 && errno != EEXIST) {
      return Error::FromErrno(errno, StrCat("symlink ", controller));
    }
    begin = end + 1;
  }
  return {};
}

Result<MountFd> NewOrPrepared(Child& child, const model::MountPlan& plan,
                              const std::string& label) {
  MountFd mount;
  if (plan.kind == Kind::kShared) {
    mount = MountFd(child.shared_memory.Release());
    if (!mount) return InvalidArgument("shared memory: mounted twice");
  } else if (plan.kind == Kind::kProc && child.procfs) {
    mount = MountFd(child.procfs.Release());
  } else if (plan.kind == Kind::kSysfs && child.sysfs) {
    mount = std::move(child.sysfs);
  } else {
    return NewFilesystem(plan, label);
  }
  RETURN_IF_ERROR(sys::SetMountAttributes(mount.get(), Attributes(plan), false));
  return mount;
}

// Labels in proc, sysfs and of cgroups are the kernel's to give. What the pod's containers share is there before them; the
// node's own queues stay as they are.
bool HasLabelOfItsTop(const model::MountPlan& mount, const model::NamespacePlan& namespaces) {
  return mount.kind == Kind::kShared ||
         (mount.kind == Kind::kMqueue && namespaces.ipc != model::kNoFd);
}

Result<void> MountOne(Child& child, const model::MountPlan& plan, const model::LaunchPlan& whole) {
  const int root = child.root.get();
  if (plan.kind == Kind::kBind) {
    const int source = child.Fd(plan.source);
    ASSIGN_OR_RETURN(const bool directory, IsDirectory(source, plan.destination));
    ASSIGN_OR_RETURN(const UniqueFd target, MountTarget(root, plan.destination, directory));
    RETURN_IF_ERROR(PrepareBind(source, plan));
    return sys::AttachMount(source, target.get(), plan.destination);
  }
  const bool fixed =
      plan.kind == Kind::kProc || plan.kind == Kind::kSysfs || plan.kind == Kind::kDev;
  UniqueFd target;
  if (fixed) {
    ASSIGN_OR_RETURN(target, OrdinaryDirectory(root, plan.destination));
  } else {
    ASSIGN_OR_RETURN(target, MountTarget(root, plan.destination, true));
  }
  ASSIGN_OR_RETURN(const MountFd mount, NewOrPrepared(child, plan, whole.selinux));
  if (HasLabelOfItsTop(plan, whole.namespaces)) {
    RETURN_IF_ERROR(LabelTop(mount.get(), whole.selinux));
  }
  RETURN_IF_ERROR(sys::AttachMount(mount.get(), target.get(), plan.destination));
  return plan.kind == Kind::kCgroup1 ? LinkControllers(root, plan) : Result<void>();
}

}  // namespace

Result<void> MountAll(Child& child, const model::LaunchPlan& plan) {
  for (const model::MountPlan& mount : plan.mounts) {
    RETURN_IF_ERROR(WithContext(MountOne(child, mount, plan), mount.destination));
  }
  return {};
}

}  // namespace holdfast::runtime
