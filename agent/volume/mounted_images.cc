// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/mounted_images.h"

#include <fcntl.h>
#include <sys/mount.h>

#include <cerrno>
#include <fstream>
#include <ranges>

#include "agent/volume/mount_point.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMostMountOptions = 4095;  // mount(2) reads a page

// Names of descriptors are short, and free of what separates options.
std::string NameOf(const UniqueFd& fd) { return StrCat("/proc/self/fd/", fd.get()); }

}  // namespace

Result<void> MountImage(const std::string& directory, const std::string& id,
                        const std::vector<std::string>& layers) {
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, directory, 0755));
  ASSIGN_OR_RETURN(const bool mounted, IsMountPoint(directory));
  if (mounted || layers.empty()) return {};
  std::vector<UniqueFd> open;
  for (const std::string& layer : layers | std::views::reverse) {
    ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenAt(AT_FDCWD, layer, O_PATH | O_DIRECTORY));
    open.push_back(std::move(fd));
  }
  // An overlay that nobody writes to needs two layers: the lowest is the empty directory itself.
  ASSIGN_OR_RETURN(UniqueFd target,
                   sys::OpenAt(AT_FDCWD, directory, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  const std::string here = NameOf(target);
  open.push_back(std::move(target));
  std::string options = "lowerdir=";
  for (const UniqueFd& layer : open) {
    if (!options.ends_with('=')) options += ':';
    options += NameOf(layer);
  }
  if (options.size() > kMostMountOptions) {
    return Unsupported(StrCat("mount overlay: ", layers.size(),
                              " layers do not fit into the options of mount(2)"));
  }
  if (::mount(id.c_str(), here.c_str(), "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV,
              options.c_str()) != 0) {
    return Error::FromErrno(errno, StrCat("mount overlay on ", directory));
  }
  HOLDFAST_PAUSE_POINT("agent.volume.image_mounted");
  return {};
}

Result<bool> IsMountedImage(const std::string& id) {
  // "… - overlay SOURCE OPTIONS" (proc_pid_mountinfo(5)); an id has nothing that would be escaped.
  const std::string wanted = StrCat(" - overlay ", id, " ");
  std::ifstream mounts("/proc/self/mountinfo");
  std::string line;
  while (std::getline(mounts, line)) {
    if (line.find(wanted) != std::string::npos) return true;
  }
  if (!mounts.eof()) return Error::FromErrno(errno, "read /proc/self/mountinfo");
  return false;
}

}  // namespace holdfast::agent
