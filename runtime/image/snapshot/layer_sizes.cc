// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/snapshot/layer_sizes.h"

#include <sys/stat.h>

#include <map>

#include "holdfast/sys/tree.h"

namespace holdfast::runtime {
namespace {

constexpr uint64_t kBlock = 512;  // of st_blocks, whatever the file system's are

Result<uint64_t> MeasureLayer(const LayerStore& layers, const Digest& chain_id) {
  ASSIGN_OR_RETURN(const DirFd top, layers.OpenLayer(chain_id));
  uint64_t bytes = 0;
  struct Linked {
    uint64_t bytes;
    nlink_t missing;  // names that were not met yet
  };
  std::map<ino_t, Linked> linked;  // a layer lies on one file system
  RETURN_IF_ERROR(sys::VisitTree(
      top.get(), [&](int, const struct stat& st, const std::string&) -> Result<void> {
        const uint64_t own = static_cast<uint64_t>(st.st_blocks) * kBlock;
        if (S_ISDIR(st.st_mode) || st.st_nlink < 2) {
          bytes += own;
        } else {
          --linked.try_emplace(st.st_ino, Linked{own, st.st_nlink}).first->second.missing;
        }
        return {};
      }));
  // What has a name elsewhere is a blob's, and counted there (artifact_files.h).
  for (const auto& [inode, file] : linked) {
    if (file.missing == 0) bytes += file.bytes;
  }
  return bytes;
}

}  // namespace

uint64_t LayerSizes::Of(const LayerStore& layers, const Digest& chain_id) {
  {
    const std::lock_guard hold(mutex_);
    if (const auto known = known_.find(chain_id); known != known_.end()) return known->second;
  }
  const auto bytes = MeasureLayer(layers, chain_id);
  if (!bytes) return 0;
  const std::lock_guard hold(mutex_);
  known_.insert_or_assign(chain_id, *bytes);
  return *bytes;
}

}  // namespace holdfast::runtime
