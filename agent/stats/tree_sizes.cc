// SPDX-License-Identifier: Apache-2.0
#include "agent/stats/tree_sizes.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/result.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/tree.h"

namespace holdfast::agent {
namespace {

// By inode: a hard link, and a directory that was moved under a walk, are seen more than once.
using Seen = std::vector<std::pair<ino_t, uint64_t>>;

TreeSize SumOf(Seen& seen) {
  std::ranges::sort(seen);
  TreeSize size{0, 1};  // the top
  for (size_t i = 0; i < seen.size(); ++i) {
    if (i > 0 && seen[i].first == seen[i - 1].first) continue;
    size.bytes += seen[i].second;
    ++size.inodes;
  }
  return size;
}

}  // namespace

std::optional<TreeSize> MeasureTree(const std::string& path, uint64_t most_inodes,
                                    const std::stop_token& stop) {
  const auto top = sys::OpenDir(path);
  if (!top) return std::nullopt;
  Seen seen;
  const auto visited = sys::VisitTree(
      top->get(), [&](int, const struct stat& st, const std::string&) -> Result<void> {
        if (stop.stop_requested()) return Unavailable("stopped");
        if (seen.size() + 1 >= most_inodes) {
          return Error(Code::kResourceExhausted, "too many files");
        }
        seen.emplace_back(st.st_ino, DiskBytes(st));
        return {};
      });
  if (stop.stop_requested()) return std::nullopt;
  TreeSize size = SumOf(seen);
  size.whole = visited.has_value();
  return size;
}

}  // namespace holdfast::agent
