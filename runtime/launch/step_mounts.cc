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

constexpr mode_t kTmpfsMode = 01777;  // the kernel's default

sys::MountAttributes Attributes(const model::MountPlan& plan) {
  return {.read_only = plan.read_only,
          .no_suid = plan.no_suid,
          .no_dev = plan.no_dev,
          .no_exec = plan.no_exec,
          .strict_atime = plan.strict_atime};
}

// What a file system of its own kind is told, as in fstab(5).
std::string TmpfsOptions(const model::MountPlan& plan) {
  char mode[32];
  std::snprintf(mode, sizeof mode, "mode=%04o", plan.mode != 0 ? plan.mode : kTmpfsMode);
  return plan.size_bytes == 0 ? mode : StrCat(mode, ",size=", plan.size_bytes);
}

// Group 5 is tty in every distribution.
constexpr const char* kDevptsOptions = "newinstance,ptmxmode=0666,mode=0620,gid=5";

// "cpu,cpuacct", "name=systemd" or, of cgroup2, "nsdelegate".
std::string CgroupOptions(const std::string& options) {
  return options.starts_with("name=") ? StrCat("none,", options) : options;
}

std::string OptionsOf(const model::MountPlan& plan, const std::string& label) {
  switch (plan.kind) {
    case Kind::kTmpfs:
    case Kind::kDev:
      return TmpfsOptions(plan) + LabelOption(label);
    case Kind::kDevpts:
      return kDevptsOptions + LabelOption(label);
    case Kind::kCgroup1:
    case Kind::kCgroup2:
      return CgroupOptions(plan.options);
    default:
      return "";
  }
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

// File systems that this launch has made, in which nobody but it has made anything: a directory of theirs is made and
// mounted onto by its name, where other targets are looked for from the root on.
class FreshFilesystems {
 public:
  void Add(const std::string& destination, int directory) {
    all_.emplace_back(destination, directory);
  }
  // A volume may lie over any of them from now on.
  void Forget() { all_.clear(); }

  // The one that `destination` lies in, directly below its top; -1: none.
  int Above(const std::string& destination) const {
    const std::string_view parent(destination.data(), destination.rfind('/'));
    // One may lie over an earlier one.
    for (auto each = all_.rbegin(); each != all_.rend(); ++each) {
      if (each->first == parent) return each->second;
    }
    return -1;
  }

 private:
  std::vector<std::pair<std::string, int>> all_;
};

// Not by mount(2): it would make the first of a network namespace read-only for all containers of the pod.
Result<int> NewSysfs() {
  ASSIGN_OR_RETURN(UniqueFd context, sys::OpenFilesystem("sysfs"));
  ASSIGN_OR_RETURN(MountFd sysfs, sys::CreateMount(KeepOpen(std::move(context)), {}));
  return KeepOpen(std::move(sysfs));
}

// Detached; -1: the file system is yet to be made.
Result<int> TakePrepared(Child& child, const model::MountPlan& plan) {
  if (plan.kind == Kind::kShared && child.shared_memory < 0) {
    return InvalidArgument("shared memory: mounted twice");
  }
  if (plan.kind == Kind::kShared) return std::exchange(child.shared_memory, -1);
  if (plan.kind == Kind::kProc) return std::exchange(child.procfs, -1);
  if (plan.kind != Kind::kSysfs) return -1;
  return child.sysfs >= 0 ? std::exchange(child.sysfs, -1) : NewSysfs();
}

// Labels in proc, sysfs and of cgroups are the kernel's to give. What the pod's containers share is there before them; the
// node's own queues stay as they are.
bool HasLabelOfItsTop(const model::MountPlan& mount, const model::LaunchPlan& whole) {
  if (whole.selinux.empty()) return false;
  return mount.kind == Kind::kShared ||
         (mount.kind == Kind::kMqueue && whole.namespaces.ipc != model::kNoFd);
}

// All mounts of a container, in their order.
class Mounter {
 public:
  Mounter(Child& child, const model::LaunchPlan& whole)
      : child_(child), whole_(whole), root_(child.root) {}

  Result<void> Mount(const model::MountPlan& plan) {
    return plan.kind == Kind::kBind ? MountVolume(plan) : MountFilesystem(plan);
  }

 private:
  // A directory by descriptor, and an entry of it that is a directory and no symlink, or "." for itself.
  struct Place {
    int directory = -1;
    std::string name = ".";
  };

  Result<void> MountVolume(const model::MountPlan& plan) {
    fresh_.Forget();
    const int source = child_.Fd(plan.source);
    ASSIGN_OR_RETURN(const bool directory, IsDirectory(source, plan.destination));
    ASSIGN_OR_RETURN(UniqueFd target, MountTarget(root_, plan.destination, directory));
    RETURN_IF_ERROR(PrepareBind(source, plan));
    return sys::AttachMount(source, KeepOpen(std::move(target)), plan.destination);
  }

  Result<void> MountFilesystem(const model::MountPlan& plan) {
    ASSIGN_OR_RETURN(const int prepared, TakePrepared(child_, plan));
    ASSIGN_OR_RETURN(const Place place, FindPlace(plan));
    RETURN_IF_ERROR(prepared < 0 ? MountNew(plan, place) : Attach(prepared, plan, place));
    if (HasLabelOfItsTop(plan, whole_)) {
      ASSIGN_OR_RETURN(const int top, prepared < 0 ? OpenMounted(plan) : prepared);
      RETURN_IF_ERROR(LabelTop(top, whole_.selinux));
    }
    if (plan.kind == Kind::kDev || plan.kind == Kind::kTmpfs) {
      if (auto top = OpenMounted(plan)) fresh_.Add(plan.destination, *top);
    }
    return plan.kind == Kind::kCgroup1 ? LinkControllers(root_, plan) : Result<void>();
  }

  Result<Place> FindPlace(const model::MountPlan& plan) const {
    if (const int filesystem = fresh_.Above(plan.destination); filesystem >= 0) {
      std::string name = plan.destination.substr(plan.destination.rfind('/') + 1);
      if (::mkdirat(filesystem, name.c_str(), 0755) == 0) {
        return Place{filesystem, std::move(name)};
      }
      if (errno != EEXIST) return Error::FromErrno(errno, "mkdir");
    }
    const bool fixed =
        plan.kind == Kind::kProc || plan.kind == Kind::kSysfs || plan.kind == Kind::kDev;
    ASSIGN_OR_RETURN(UniqueFd target, fixed ? OrdinaryDirectory(root_, plan.destination)
                                            : MountTarget(root_, plan.destination, true));
    return Place{KeepOpen(std::move(target))};
  }

  Result<void> MountNew(const model::MountPlan& plan, const Place& place) {
    const bool is_here = place.directory == here_;
    here_ = place.directory;
    return sys::MountNew(TypeOf(plan.kind), Attributes(plan), OptionsOf(plan, whole_.selinux),
                         is_here ? -1 : place.directory, place.name);
  }

  static Result<void> Attach(int mount, const model::MountPlan& plan, const Place& place) {
    RETURN_IF_ERROR(sys::SetMountAttributes(mount, Attributes(plan), false));
    return sys::AttachMountAt(mount, place.directory, place.name, plan.destination);
  }

  // The top of what was just mounted. It is empty, so a way that it covers (a symlink in the very directory, to it) leads
  // to nothing: ENOENT.
  Result<int> OpenMounted(const model::MountPlan& plan) const {
    ASSIGN_OR_RETURN(UniqueFd top, sys::OpenInside(root_, plan.destination, O_PATH | O_DIRECTORY, 0,
                                                   sys::Resolve::kInRoot));
    return KeepOpen(std::move(top));
  }

  Child& child_;
  const model::LaunchPlan& whole_;
  const int root_;
  FreshFilesystems fresh_;
  int here_ = -1;  // the working directory, once one of these mounts has set it
};

}  // namespace

// Before the user namespace is entered: inside, the kernel mounts a sysfs only beside one that is visible already
// (mount_too_revealing); the launcher shows none. This one belongs to the pod's network namespace all the same.
Result<void> PrepareSysfs(Child& child, const model::LaunchPlan& plan) {
  for (const model::MountPlan& mount : plan.mounts) {
    if (mount.kind != Kind::kSysfs) continue;
    ASSIGN_OR_RETURN(child.sysfs, NewSysfs());
    return {};
  }
  return {};
}

Result<void> MountAll(Child& child, const model::LaunchPlan& plan) {
  Mounter mounter(child, plan);
  for (const model::MountPlan& mount : plan.mounts) {
    RETURN_IF_ERROR(WithContext(mounter.Mount(mount), mount.destination));
  }
  return {};
}

}  // namespace holdfast::runtime
