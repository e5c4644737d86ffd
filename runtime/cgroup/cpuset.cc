// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/cpuset.h"

#include <algorithm>
#include <utility>

#include "holdfast/sys/files.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kCpusetLimit = 64 * 1024;
constexpr const char* kFiles[] = {"cpuset.cpus", "cpuset.mems"};

// False where the directory is no v1 cpuset (v2 has these files too, but empty means all there).
bool IsCpuset(int dir) {
  return sys::ExistsAt(dir, kFiles[0]) && sys::ExistsAt(dir, "cgroup.clone_children");
}

Result<void> FillFrom(int parent, int child) {
  for (const char* file : kFiles) {
    ASSIGN_OR_RETURN(const std::string has, sys::ReadFileAt(child, file, kCpusetLimit));
    if (has.find_first_not_of(" \n") != std::string::npos) continue;
    ASSIGN_OR_RETURN(const std::string all, sys::ReadFileAt(parent, file, kCpusetLimit));
    RETURN_IF_ERROR(sys::WriteControlAt(child, file, all));
  }
  return {};
}

}  // namespace

Result<void> FillCpusets(int mount, const std::string& path) {
  if (!IsCpuset(mount)) return {};
  ASSIGN_OR_RETURN(DirFd parent, sys::OpenDirAt(mount, "."));
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    ASSIGN_OR_RETURN(DirFd child, sys::OpenDirAt(parent.get(), path.substr(at, end - at)));
    RETURN_IF_ERROR(FillFrom(parent.get(), child.get()));
    parent = std::move(child);
    at = end + 1;
  }
  return {};
}

Result<void> FillCpusetsForChildren(const Cgroup& parent, const Cgroup& child) {
  for (size_t i = 0; i < parent.dirs.size(); ++i) {
    const int dir = child.dirs[i].get();
    if (!IsCpuset(dir)) continue;
    RETURN_IF_ERROR(FillFrom(parent.dirs[i].get(), dir));
    RETURN_IF_ERROR(sys::WriteControlAt(dir, "cgroup.clone_children", "1"));
  }
  return {};
}

}  // namespace holdfast::runtime
