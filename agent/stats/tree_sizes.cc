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

std::optional<TreeSize> TreeSizes::Get(const std::string& path) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[path];
  entry.wanted = true;
  return entry.size;
}

std::vector<std::string> TreeSizes::Stale(Time now) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) { return !entry.second.wanted; });
  std::vector<std::string> out;
  for (auto& [path, entry] : entries_) {
    entry.wanted = false;
    if (!entry.due || now >= *entry.due) out.push_back(path);
  }
  return out;
}

void TreeSizes::Measure(const std::stop_token& stop) {
  const std::unique_lock measuring(measuring_, std::try_to_lock);
  if (!measuring) return;
  for (const std::string& path : Stale(std::chrono::steady_clock::now())) {
    if (stop.stop_requested()) return;
    const Time begun = std::chrono::steady_clock::now();
    const auto size = MeasureTree(path, options_.most_inodes, stop);
    const Time now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[path];
    entry.due = now + std::max<Time::duration>(options_.lasts, options_.rest * (now - begun));
    entry.size = size;
  }
}

}  // namespace holdfast::agent
