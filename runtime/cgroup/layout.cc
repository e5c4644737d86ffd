// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/layout.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/further.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kProcLimit = 16u << 20;  // mount tables grow with what runs

struct V1Controller {
  const char* name;
  Controller controller;
  bool required;
};

// Attach order: memory first, so that nothing of the child is charged elsewhere.
constexpr std::array<V1Controller, 6> kV1Controllers = {{
    {"memory", Controller::kMemory, true},
    {"cpu", Controller::kCpu, true},
    {"cpuacct", Controller::kCpuAcct, false},  // without it only the usage figures are missing
    {"pids", Controller::kPids, true},
    {"devices", Controller::kDevices, true},
    {"hugetlb", Controller::kHugetlb, false},  // without it huge pages are not limited
}};

Result<int64_t> FileSystemType(const std::string& path) {
  struct statfs st{};
  if (::statfs(path.c_str(), &st) != 0) return Error::FromErrno(errno, StrCat("statfs ", path));
  return static_cast<int64_t>(st.f_type);
}

Result<CgroupLayout> DetectV1(const std::string& root) {
  CgroupLayout layout{CgroupVersion::kV1, {}};
  std::map<std::pair<dev_t, ino_t>, size_t> known;
  std::string missing;
  for (const V1Controller& wanted : kV1Controllers) {
    const std::string path = StrCat(root, "/", wanted.name);
    const auto type = FileSystemType(path);
    struct stat st{};
    if (!type || *type != CGROUP_SUPER_MAGIC || ::stat(path.c_str(), &st) != 0) {
      if (wanted.required) missing += StrCat(missing.empty() ? "" : ", ", wanted.name);
      continue;
    }
    const auto [it, added] = known.try_emplace({st.st_dev, st.st_ino}, layout.hierarchies.size());
    if (added) layout.hierarchies.push_back({path, {}});
    layout.hierarchies[it->second].controllers.push_back(wanted.controller);
  }
  if (!missing.empty()) {
    return Unsupported(StrCat("cgroup controllers missing below ", root, ": ", missing,
                              " (mount them there, or boot with cgroup v2)"));
  }
  return layout;
}

std::string DeviceOf(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return "";
  return StrCat(::major(st.st_dev), ":", ::minor(st.st_dev));
}

std::string UnusableBecause(const CgroupMount& mount) {
  if (DeviceOf(mount.mount_point) != mount.device) {
    return StrCat("its mount point ", mount.mount_point, " cannot be reached");
  }
  if (::access(mount.mount_point.c_str(), W_OK) == 0) return "";
  return StrCat(mount.mount_point, " cannot be written: ", std::strerror(errno));
}

Result<CgroupLayout> WithFurther(CgroupLayout layout, const std::string& root) {
  ASSIGN_OR_RETURN(const std::string mounts,
                   sys::ReadFileAt(AT_FDCWD, "/proc/self/mountinfo", kProcLimit));
  ASSIGN_OR_RETURN(const std::string existing,
                   sys::ReadFileAt(AT_FDCWD, "/proc/self/cgroup", kProcLimit));
  std::set<std::string> known;
  for (const CgroupHierarchy& hierarchy : layout.hierarchies) {
    known.insert(DeviceOf(hierarchy.mount_point));
  }
  FurtherHierarchies further = FindFurther(mounts, existing, root, known, UnusableBecause);
  for (CgroupHierarchy& hierarchy : further.joined) {
    layout.hierarchies.push_back(std::move(hierarchy));
  }
  layout.left_out = std::move(further.left_out);
  return layout;
}

}  // namespace

size_t CgroupLayout::WithLimits() const {
  return static_cast<size_t>(std::ranges::count_if(
      hierarchies, [](const CgroupHierarchy& h) { return !h.controllers.empty(); }));
}

bool CgroupHierarchy::Has(Controller controller) const {
  return std::ranges::find(controllers, controller) != controllers.end();
}

Result<CgroupLayout> DetectCgroupLayout(const std::string& cgroup_root) {
  ASSIGN_OR_RETURN(const int64_t type, FileSystemType(cgroup_root));
  if (type != CGROUP2_SUPER_MAGIC) {
    ASSIGN_OR_RETURN(CgroupLayout v1, DetectV1(cgroup_root));
    return WithFurther(std::move(v1), cgroup_root);
  }
  // Device access is a BPF program in v2 and CPU time is always counted.
  CgroupLayout v2{CgroupVersion::kV2,
                  {{cgroup_root,
                    {Controller::kCpu, Controller::kCpuAcct, Controller::kMemory, Controller::kPids,
                     Controller::kDevices}}},
                  {}};
  return WithFurther(std::move(v2), cgroup_root);
}

}  // namespace holdfast::runtime
