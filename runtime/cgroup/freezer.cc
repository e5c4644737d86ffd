// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/freezer.h"

#include "holdfast/sys/files.h"

namespace holdfast::runtime {
namespace {

constexpr const char* kState = "freezer.state";
constexpr int kMaxThawDepth = 32;  // bounds our recursion, not what a container may nest

// From the top: what lies in a frozen cgroup stays frozen. What is no cgroup has no such file.
Result<void> ThawTree(int dir, int depth) {
  RETURN_IF_ERROR(sys::WriteControlAt(dir, kState, "THAWED"));
  if (depth == kMaxThawDepth) return {};
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(dir, "."));
  for (const std::string& name : names) {
    if (!sys::ExistsAt(dir, name + "/" + kState)) continue;
    ASSIGN_OR_RETURN(const DirFd child, sys::OpenDirAt(dir, name));
    RETURN_IF_ERROR(ThawTree(child.get(), depth + 1));
  }
  return {};
}

}  // namespace

Result<void> Thaw(const Cgroup& cgroup) {
  for (const DirFd& dir : cgroup.dirs) {
    if (sys::ExistsAt(dir.get(), kState)) RETURN_IF_ERROR(ThawTree(dir.get(), 0));
  }
  return {};
}

}  // namespace holdfast::runtime
