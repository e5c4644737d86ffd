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
    size.bytes += static_cast<uint64_t>(file.st_blocks) * 512;
    ++size.inodes;
  }
  return size;
}

bool IsDiskEmptyDir(const core::Volume& volume) {
  const core::VolumeSource& source = volume.volumesource();
  return source.has_emptydir() && source.emptydir().medium().empty();
}

}  // namespace holdfast::agent
