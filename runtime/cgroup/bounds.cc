// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/bounds.h"

#include <algorithm>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/backend_internal.h"

namespace holdfast::runtime {
namespace {

// v1 writes "no limit" of memory as the highest multiple of a page below 2^63.
constexpr uint64_t kNoLimitFrom = 1ull << 62;

Result<void> Lower(const std::string& directory, const char* file, int64_t& bound) {
  auto dir = sys::OpenDir(directory);
  if (!dir && dir.error().code() == Code::kNotFound) return {};
  if (!dir) return std::move(dir.error());
  auto limit = ReadNumber(dir->get(), file);
  if (!limit && limit.error().code() == Code::kNotFound) return {};  // the hierarchy's root
  if (!limit) return std::move(limit.error()).Wrap(directory);
  if (*limit >= kNoLimitFrom) return {};
  const auto value = static_cast<int64_t>(*limit);
  bound = bound == CgroupLimits::kUnlimited ? value : std::min(bound, value);
  return {};
}

Result<int64_t> SmallestLimit(const CgroupLayout& layout, Controller controller,
                              const std::string& parent, const char* file) {
  int64_t bound = CgroupLimits::kUnlimited;
  for (const CgroupHierarchy& hierarchy : layout.hierarchies) {
    if (!hierarchy.Has(controller)) continue;
    for (std::string path = parent;; path.resize(path.rfind('/'))) {
      RETURN_IF_ERROR(Lower(hierarchy.mount_point + path, file, bound));
      if (path.find('/') == std::string::npos) break;
    }
  }
  return bound;
}

}  // namespace

Result<CgroupBounds> BoundsAbove(const CgroupLayout& layout, const std::string& parent) {
  const bool v1 = layout.version == CgroupVersion::kV1;
  CgroupBounds bounds;
  ASSIGN_OR_RETURN(bounds.memory_bytes, SmallestLimit(layout, Controller::kMemory, parent,
                                                      v1 ? "memory.limit_in_bytes" : "memory.max"));
  ASSIGN_OR_RETURN(bounds.pids, SmallestLimit(layout, Controller::kPids, parent, "pids.max"));
  return bounds;
}

}  // namespace holdfast::runtime
