// SPDX-License-Identifier: Apache-2.0
#include "agent/stats/tree_sizes.h"

#include "holdfast/base/result.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/tree.h"

namespace holdfast::agent {
namespace {

constexpr uint64_t kMostInodes = 200'000;  // of one tree: about a second
constexpr uint64_t kBlock = 512;           // of st_blocks, whatever the file system's are

}  // namespace

std::optional<TreeSize> MeasureTree(const std::string& path, uint64_t most_inodes) {
  const auto top = sys::OpenDir(path);
  if (!top) return std::nullopt;
  TreeSize size{0, 1};
  const auto visited = sys::VisitTree(
      top->get(), [&](int, const struct stat& st, const std::string&) -> Result<void> {
        if (++size.inodes > most_inodes) return Error(Code::kResourceExhausted, "too many files");
        size.bytes += static_cast<uint64_t>(st.st_blocks) * kBlock;
        return {};
      });
  return visited ? std::optional(size) : std::nullopt;
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
    if (!entry.measured || now - *entry.measured >= lasts_) out.push_back(path);
  }
  return out;
}

void TreeSizes::Measure() {
  const std::unique_lock measuring(measuring_, std::try_to_lock);
  if (!measuring) return;
  for (const std::string& path : Stale(std::chrono::steady_clock::now())) {
    const auto size = MeasureTree(path, kMostInodes);
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[path];
    entry.measured = std::chrono::steady_clock::now();
    entry.size = size;
  }
}

}  // namespace holdfast::agent
