// SPDX-License-Identifier: Apache-2.0
#include "agent/stats/pod_storage.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "holdfast/sys/files.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {

namespace core = ::k8s::io::api::core::v1;

std::string WrittenLayerOf(const PodPaths& paths, const core::ContainerStatus& status) {
  const auto attempt = static_cast<uint32_t>(std::max(status.restartcount(), 0));
  return paths.Attempt(status.name(), attempt);
}

std::optional<TreeSize> SizeOfLogs(const PodPaths& paths, const std::string& container) {
  const auto dir = sys::OpenDirBelow(paths.LogRoot(), paths.ContainerLogs(container));
  if (!dir) return std::nullopt;
  const auto names = sys::ListDirAt(dir->get(), ".");
  if (!names) return std::nullopt;
  TreeSize size;
  for (const std::string& name : *names) {
    struct stat file{};
    if (::fstatat(dir->get(), name.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0) continue;
    size.bytes += DiskBytes(file);
    ++size.inodes;
  }
  return size;
}

}  // namespace holdfast::agent
