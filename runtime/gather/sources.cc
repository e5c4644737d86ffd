// SPDX-License-Identifier: Apache-2.0
#include "runtime/gather/sources.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::runtime {
namespace {

constexpr const char* kHostDev = "/dev";
constexpr int kMaxDeviceDepth = 4;

Result<UniqueFd> OpenSubPath(int volume, const std::string& sub_path) {
  auto found = sys::OpenInside(volume, sub_path, O_PATH, 0, sys::Resolve::kBeneath);
  if (found || found.error().sys_errno() != ENOENT) return found;
  struct stat st{};
  if (::fstat(volume, &st) != 0) return Error::FromErrno(errno, "fstat volume");
  const mode_t mode = S_ISDIR(st.st_mode) ? st.st_mode & 07777 : 0755;
  ASSIGN_OR_RETURN(const DirFd made, sys::MakeDirsInside(volume, sub_path, mode));
  // Resolved again by the strict rule: what MakeDirsInside kept inside may still be an escape.
  return sys::OpenInside(volume, sub_path, O_PATH, 0, sys::Resolve::kBeneath);
}

bool IsSkipped(const std::string& name) {
  static constexpr std::string_view kSkipped[] = {
      "pts",  "shm",  "mqueue", "fd",     "stdin",   "stdout", "stderr", "console",     "ptmx",
      "null", "zero", "full",   "random", "urandom", "tty",    ".lxc",   ".lxd-mounts", ".udev"};
  return std::ranges::find(kSkipped, name) != std::end(kSkipped);
}

Result<void> Collect(int dir, const std::string& prefix, int depth,
                     std::vector<model::DevicePlan>& devices) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(dir, "."));
  for (const std::string& name : names) {
    if (depth == 0 && IsSkipped(name)) continue;
    struct stat st{};
    // Nodes come and go while we look.
    if (::fstatat(dir, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISDIR(st.st_mode) && depth < kMaxDeviceDepth) {
      auto sub = sys::OpenAt(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      if (sub) RETURN_IF_ERROR(Collect(sub->get(), prefix + name + "/", depth + 1, devices));
    } else if ((S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) && st.st_rdev != 0) {
      devices.push_back({prefix + name, S_ISBLK(st.st_mode), ::major(st.st_rdev),
                         ::minor(st.st_rdev), st.st_mode & 07777, st.st_uid, st.st_gid});
    }
  }
  return {};
}

}  // namespace

Result<MountFd> OpenVolume(const model::MountSpec& spec) {
  ASSIGN_OR_RETURN(UniqueFd volume, sys::OpenRooted(spec.source_root, spec.source));
  if (!spec.sub_path.empty()) {
    if (spec.sub_path.starts_with('/')) {
      return InvalidArgument(StrCat("sub path ", spec.sub_path, ": must be relative"));
    }
    auto inside = OpenSubPath(volume.get(), spec.sub_path);
    if (!inside) return std::move(inside.error()).Wrap(StrCat("sub path of ", spec.source));
    volume = std::move(*inside);
  }
  return WithContext(sys::CloneTree(volume.get(), "", true), spec.source);
}

std::vector<std::string> ThrottlePaths(const std::string& cpus) {
  std::vector<std::string> paths;
  const auto names = sys::ListDirAt(AT_FDCWD, cpus);
  if (!names) return paths;  // a kernel without them
  for (const std::string& name : *names) {
    if (!name.starts_with("cpu") || name.find_first_not_of("0123456789", 3) != std::string::npos) {
      continue;
    }
    const std::string path = StrCat("/", name, "/thermal_throttle");
    if (::access((cpus + path).c_str(), F_OK) == 0) {
      paths.push_back("/sys/devices/system/cpu" + path);
    }
  }
  return paths;
}

Result<std::vector<model::DevicePlan>> ListHostDevices() {
  std::vector<model::DevicePlan> devices;
  ASSIGN_OR_RETURN(const UniqueFd dev, sys::OpenAt(AT_FDCWD, kHostDev, O_RDONLY | O_DIRECTORY));
  RETURN_IF_ERROR(Collect(dev.get(), "", 0, devices));
  return devices;
}

}  // namespace holdfast::runtime
