// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// File systems that this launch has made, in which nobody but it has made anything: a directory of theirs is made and
// mounted onto by its name, where other targets are looked for from the root on.
class FreshFilesystems {
 public:
  void Add(const std::string& destination, MountFd mount) {
    all_.emplace_back(destination, std::move(mount));
  }
  // A volume may lie over any of them from now on.
  void Forget() { all_.clear(); }

  // The one that `destination` lies in, directly below its top; -1: none.
  int Above(const std::string& destination) const {
    const std::string_view parent(destination.data(), destination.rfind('/'));
    // One may lie over an earlier one.
    for (auto each = all_.rbegin(); each != all_.rend(); ++each) {
      if (each->first == parent) return each->second.get();
    }
    return -1;
  }

 private:
  std::vector<std::pair<std::string, MountFd>> all_;
};

// False, and nothing happened: something of that name is there.
Result<bool> AttachInFresh(int mount, int filesystem, const std::string& destination) {
  const std::string name = destination.substr(destination.rfind('/') + 1);
  if (::mkdirat(filesystem, name.c_str(), 0755) != 0) {
    if (errno == EEXIST) return false;
    return Error::FromErrno(errno, "mkdir");
  }
  RETURN_IF_ERROR(sys::AttachMountAt(mount, filesystem, name, destination));
  return true;
}

Result<void> MountVolume(Child& child, const model::MountPlan& plan) {
  const int source = child.Fd(plan.source);
  ASSIGN_OR_RETURN(const bool directory, IsDirectory(source, plan.destination));
  ASSIGN_OR_RETURN(const UniqueFd target,
                   MountTarget(child.root.get(), plan.destination, directory));
  RETURN_IF_ERROR(PrepareBind(source, plan));
  return sys::AttachMount(source, target.get(), plan.destination);
}

Result<void> AttachFilesystem(int root, int mount, const model::MountPlan& plan,
                              const FreshFilesystems& fresh) {
  if (const int filesystem = fresh.Above(plan.destination); filesystem >= 0) {
    ASSIGN_OR_RETURN(const bool attached, AttachInFresh(mount, filesystem, plan.destination));
    if (attached) return {};
  }
  const bool fixed =
      plan.kind == Kind::kProc || plan.kind == Kind::kSysfs || plan.kind == Kind::kDev;
  ASSIGN_OR_RETURN(const UniqueFd target, fixed ? OrdinaryDirectory(root, plan.destination)
                                                : MountTarget(root, plan.destination, true));
  return sys::AttachMount(mount, target.get(), plan.destination);
}

Result<void> MountFilesystem(Child& child, const model::MountPlan& plan,
                             const model::LaunchPlan& whole, FreshFilesystems& fresh) {
  const int root = child.root.get();
  ASSIGN_OR_RETURN(MountFd mount, NewOrPrepared(child, plan, whole.selinux));
  if (HasLabelOfItsTop(plan, whole.namespaces)) {
    RETURN_IF_ERROR(LabelTop(mount.get(), whole.selinux));
  }
  RETURN_IF_ERROR(AttachFilesystem(root, mount.get(), plan, fresh));
  if (plan.kind == Kind::kDev || plan.kind == Kind::kTmpfs) {
    fresh.Add(plan.destination, std::move(mount));
  }
  return plan.kind == Kind::kCgroup1 ? LinkControllers(root, plan) : Result<void>();
}

}  // namespace

Result<void> MountAll(Child& child, const model::LaunchPlan& plan) {
  FreshFilesystems fresh;
  for (const model::MountPlan& mount : plan.mounts) {
    if (mount.kind == Kind::kBind) fresh.Forget();
    RETURN_IF_ERROR(WithContext(mount.kind == Kind::kBind
                                    ? MountVolume(child, mount)
                                    : MountFilesystem(child, mount, plan, fresh),
                                mount.destination));
  }
  return {};
}

}  // namespace holdfast::runtime
