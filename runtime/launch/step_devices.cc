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

Result<void> MakeNode(int dev, const model::DevicePlan& device) {
  const size_t slash = device.path.rfind('/');
  const std::string leaf = slash == std::string::npos ? device.path : device.path.substr(slash + 1);
  DirFd below;
  if (slash != std::string::npos) {
    ASSIGN_OR_RETURN(below, sys::MakeDirsInside(dev, device.path.substr(0, slash), 0755));
  }
  const int dir = below ? below.get() : dev;
  const mode_t type = device.block ? S_IFBLK : S_IFCHR;
  const dev_t number = ::makedev(device.major, device.minor);
  if (::mknodat(dir, leaf.c_str(), type | device.mode, number) != 0) {
    return Error::FromErrno(errno, StrCat("mknod /dev/", device.path));
  }
  if (device.uid == 0 && device.gid == 0) return {};
  if (::fchownat(dir, leaf.c_str(), device.uid, device.gid, AT_SYMLINK_NOFOLLOW) != 0) {
    return Error::FromErrno(errno, StrCat("chown /dev/", device.path));
  }
  return {};
}

// `host` shows the host's /dev.
Result<void> BindNode(int dev, int host, const model::DevicePlan& device) {
  ASSIGN_OR_RETURN(const MountFd node, sys::CloneTree(host, device.path, false));
  struct stat st{};
  if (::fstat(node.get(), &st) != 0) {
    return Error::FromErrno(errno, StrCat("fstat /dev/", device.path));
  }
  if (st.st_rdev != ::makedev(device.major, device.minor) ||
      (st.st_mode & S_IFMT) != static_cast<mode_t>(device.block ? S_IFBLK : S_IFCHR)) {
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

}  // namespace

Result<void> MakeDevices(Child& child, const model::LaunchPlan& plan) {
  // A volume on /dev brings its own nodes; ours would land in it.
  if (!HasOwnDev(plan)) return {};
  ASSIGN_OR_RETURN(const UniqueFd dev,
                   sys::OpenAt(child.root.get(), "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW));
  const mode_t old_mask = ::umask(0);
  if (plan.host_devices != model::kNoFd) {
    RETURN_IF_ERROR(BindNodes(dev.get(), child.Fd(plan.host_devices), plan.devices));
  } else {
    for (const model::DevicePlan& node : plan.devices) RETURN_IF_ERROR(MakeNode(dev.get(), node));
  }
  ::umask(old_mask);
  for (const Link& link : kLinks) {
    if (::symlinkat(link.target, dev.get(), link.name) != 0 && errno != EEXIST) {
      return Error::FromErrno(errno, StrCat("symlink /dev/", link.name));
    }
  }
  return {};
}

}  // namespace holdfast::runtime
