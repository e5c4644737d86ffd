// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "runtime/launch/steps.h"
#include "runtime/launch/target.h"

namespace holdfast::runtime {
namespace {

struct Link {
  const char* name;
  const char* target;
};
constexpr Link kLinks[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"core", "/proc/kcore"},      {"ptmx", "pts/ptmx"},
};

bool HasOwnDev(const model::LaunchPlan& plan) {
  for (const model::MountPlan& mount : plan.mounts) {
    if (mount.kind == model::MountPlan::Kind::kDev) return true;
  }
  return false;
}

// "/dev/null", "/data/disk"
std::string PathOf(const model::DevicePlan& device) {
  return device.path[0] == '/' ? device.path : "/dev/" + device.path;
}

bool IsNodeOf(const model::DevicePlan& device, const struct stat& st) {
  return st.st_rdev == ::makedev(device.major, device.minor) &&
         (st.st_mode & S_IFMT) == static_cast<mode_t>(device.block ? S_IFBLK : S_IFCHR);
}

// By a descriptor: what a volume shows there may be changed by those who have it as well.
Result<void> CheckAndOwn(int dir, const std::string& leaf, const model::DevicePlan& device) {
  ASSIGN_OR_RETURN(const UniqueFd node, sys::OpenAt(dir, leaf, O_PATH | O_NOFOLLOW));
  struct stat st{};
  if (::fstat(node.get(), &st) != 0) {
    return Error::FromErrno(errno, StrCat("fstat ", PathOf(device)));
  }
  if (!IsNodeOf(device, st)) return Conflict(StrCat(PathOf(device), ": something else is there"));
  if (st.st_uid == device.uid && st.st_gid == device.gid) return {};
  if (::fchownat(node.get(), "", device.uid, device.gid, AT_EMPTY_PATH) != 0) {
    return Error::FromErrno(errno, StrCat("chown ", PathOf(device)));
  }
  return {};
}

// `path` is relative to `root`, in which symlinks stay.
Result<void> MakeNode(int root, const std::string& path, const model::DevicePlan& device) {
  const size_t slash = path.rfind('/');
  const std::string leaf = slash == std::string::npos ? path : path.substr(slash + 1);
  DirFd below;
  if (slash != std::string::npos) {
    ASSIGN_OR_RETURN(below, sys::MakeDirsInside(root, path.substr(0, slash), 0755));
  }
  const int dir = below ? below.get() : root;
  const mode_t type = device.block ? S_IFBLK : S_IFCHR;
  const dev_t number = ::makedev(device.major, device.minor);
  const int made = ::mknodat(dir, leaf.c_str(), type | device.mode, number);
  // A volume may have the one of an earlier container.
  if (made != 0 && errno != EEXIST)
    return Error::FromErrno(errno, StrCat("mknod ", PathOf(device)));
  if (made == 0 && device.uid == 0 && device.gid == 0) return {};
  return CheckAndOwn(dir, leaf, device);
}

// `host` shows the host's /dev.
Result<void> BindNode(int dev, int host, const model::DevicePlan& device) {
  ASSIGN_OR_RETURN(const MountFd node, sys::CloneTree(host, device.path, false));
  struct stat st{};
  if (::fstat(node.get(), &st) != 0) {
    return Error::FromErrno(errno, StrCat("fstat /dev/", device.path));
  }
  if (!IsNodeOf(device, st)) {
    return NotFound(StrCat("/dev/", device.path, " of the host: not the device ", device.major, ":",
                           device.minor));
  }
  ASSIGN_OR_RETURN(const UniqueFd target, MountTarget(dev, "/" + device.path, false));
  return sys::AttachMount(node.get(), target.get(), StrCat("/dev/", device.path));
}

// A copy can only be taken of what is attached (before 6.15), so the host's /dev covers ours for a
// moment; `dev` still leads below it.
Result<void> BindNodes(int dev, int host, const std::vector<model::DevicePlan>& devices) {
  RETURN_IF_ERROR(sys::AttachMount(host, dev, "/dev"));
  for (const model::DevicePlan& device : devices) RETURN_IF_ERROR(BindNode(dev, host, device));
  return sys::DetachMountAt(host);
}

Result<void> FillDev(const Child& child, const model::LaunchPlan& plan) {
  ASSIGN_OR_RETURN(UniqueFd opened,
                   sys::OpenAt(child.root, "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW));
  const int dev = KeepOpen(std::move(opened));
  if (plan.host_devices != model::kNoFd) {
    RETURN_IF_ERROR(BindNodes(dev, child.Fd(plan.host_devices), plan.devices));
  } else {
    for (const model::DevicePlan& node : plan.devices) {
      if (node.path[0] != '/') RETURN_IF_ERROR(MakeNode(dev, node.path, node));
    }
  }
  for (const Link& link : kLinks) {
    if (::symlinkat(link.target, dev, link.name) != 0 && errno != EEXIST) {
      return Error::FromErrno(errno, StrCat("symlink /dev/", link.name));
    }
  }
  return {};
}

}  // namespace

Result<void> MakeDevices(Child& child, const model::LaunchPlan& plan) {
  // A volume on /dev brings its own nodes; ours would land in it.
  if (HasOwnDev(plan)) RETURN_IF_ERROR(FillDev(child, plan));
  for (const model::DevicePlan& device : plan.devices) {
    if (device.path[0] != '/') continue;
    RETURN_IF_ERROR(MakeNode(child.root, device.path.substr(1), device));
  }
  return {};
}

}  // namespace holdfast::runtime
