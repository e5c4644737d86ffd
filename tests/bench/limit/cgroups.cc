// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/limit/cgroups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/cgroup/backend_internal.h"
#include "runtime/cgroup/cpuset.h"
#include "tests/bench/limit/must.h"
#include "tests/bench/measure.h"

namespace holdfast::bench {
namespace {

using runtime::Controller;

// The container's own devices and those that every container has (runtime/cgroup/backend.h).
constexpr const char* kDeviceRules[] = {"c *:* m",   "b *:* m",    "c 1:3 rwm", "c 1:5 rwm",
                                        "c 1:7 rwm", "c 1:8 rwm",  "c 1:9 rwm", "c 5:0 rwm",
                                        "c 5:2 rwm", "c 136:* rwm"};
constexpr const char kContainer[] = "/c";

constexpr std::pair<Controller, const char*> kNames[] = {
    {Controller::kCpu, "cpu"},         {Controller::kCpuAcct, "cpuacct"},
    {Controller::kMemory, "memory"},   {Controller::kPids, "pids"},
    {Controller::kDevices, "devices"}, {Controller::kHugetlb, "hugetlb"}};

void WriteAt(int dir, const char* file, const char* text) {
  const UniqueFd fd(::openat(dir, file, O_WRONLY | O_CLOEXEC));
  Must(fd.get(), file);
  Must(::write(fd.get(), text, std::strlen(text)), file);
}

UniqueFd OpenPath(int dir, const std::string& path, int flags = O_PATH) {
  UniqueFd fd(::openat(dir, path.c_str(), flags | O_DIRECTORY | O_CLOEXEC));
  Must(fd.get(), path.c_str());
  return fd;
}

std::vector<std::string> HugePageFiles(const std::string& dir, const char* ending) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("hugetlb.") && name.ends_with(ending)) files.push_back(name);
  }
  return files;
}

void EnableForChildren(int dir) {
  WriteAt(dir, "cgroup.subtree_control", "+cpu +memory +pids +hugetlb +io");
}

void AllowDevices(int dir) {
  WriteAt(dir, "devices.deny", "a");
  const UniqueFd allow(::openat(dir, "devices.allow", O_WRONLY | O_CLOEXEC));
  Must(allow.get(), "devices.allow");
  for (const char* rule : kDeviceRules) Must(::write(allow.get(), rule, std::strlen(rule)), rule);
}

}  // namespace

BareCgroups::BareCgroups(const std::string& parent) : path_(StrCat(parent, "/limit-", ::getpid())) {
  const runtime::CgroupLayout layout = OrDie(runtime::DetectCgroupLayout("/sys/fs/cgroup"));
  const bool v2 = layout.version == runtime::CgroupVersion::kV2;
  for (const runtime::CgroupHierarchy& found : layout.hierarchies) all_.push_back(Open(found, v2));
}

BareCgroups::~BareCgroups() {
  for (auto dir = made_.rbegin(); dir != made_.rend(); ++dir) {
    ::unlinkat(dir->above.get(), dir->name.c_str(), AT_REMOVEDIR);
  }
}

BareCgroups::Hierarchy BareCgroups::Open(const runtime::CgroupHierarchy& found, bool v2) {
  UniqueFd above = OpenPath(AT_FDCWD, found.mount_point);
  for (const std::filesystem::path& part : std::filesystem::path(path_).relative_path()) {
    const bool fresh = ::mkdirat(above.get(), part.c_str(), 0755) == 0;
    if (!fresh && errno != EEXIST) Die(StrCat("mkdir ", path_, ": ", std::strerror(errno)));
    UniqueFd dir = OpenPath(above.get(), part);
    if (v2) EnableForChildren(dir.get());
    if (fresh) made_.push_back({std::move(above), part});
    above = std::move(dir);
  }
  Hierarchy made;
  made.mount_point = found.mount_point;
  made.top = OpenPath(AT_FDCWD, found.mount_point + path_);
  made.limited = !found.controllers.empty();
  made.v2 = v2;
  if (v2) {
    made.huge_page_files = HugePageFiles(found.mount_point + path_, ".max");
    return made;
  }
  const UniqueFd mount = OpenPath(AT_FDCWD, found.mount_point);
  OrDie(runtime::FillCpusets(mount.get(), path_.substr(1)));
  made.unified = found.unified;
  made.cpu = found.Has(Controller::kCpu);
  made.pids = found.Has(Controller::kPids);
  made.devices = found.Has(Controller::kDevices);
  if (found.Has(Controller::kHugetlb))
    made.huge_page_files = HugePageFiles(found.mount_point + path_, ".limit_in_bytes");
  if (::faccessat(made.top.get(), "cpuset.cpus", F_OK, 0) == 0) {
    WriteAt(made.top.get(), "cgroup.clone_children", "1");  // as the agent has it for its pods
  }
  if (made.limited) {
    std::string options;
    for (const auto& [controller, name] : kNames) {
      if (found.Has(controller)) options += StrCat(options.empty() ? "" : ",", name);
    }
    visible_.push_back({std::filesystem::path(found.mount_point).filename(), options});
  }
  return made;
}

void BareCgroups::Limit(const Hierarchy& hierarchy, int dir, bool is_pod) {
  if (hierarchy.v2) {
    WriteAt(dir, "cpu.weight", "1");
    WriteAt(dir, is_pod ? "pids.max" : "memory.oom.group", is_pod ? "max" : "1");
    if (!is_pod) OrDie(runtime::AttachDeviceFilter(dir, {}));
  }
  if (hierarchy.cpu) WriteAt(dir, "cpu.shares", "2");
  if (hierarchy.pids && is_pod) WriteAt(dir, "pids.max", "max");
  if (hierarchy.devices && !is_pod) AllowDevices(dir);
  for (const std::string& file : hierarchy.huge_page_files) WriteAt(dir, file.c_str(), "0");
}

BareCgroups::Pod BareCgroups::Make(const std::string& name) const {
  Pod pod;
  for (const Hierarchy& hierarchy : all_) {
    const int top = hierarchy.top.get();
    Must(::mkdirat(top, name.c_str(), 0755), "mkdir pod cgroup");
    if (hierarchy.unified) {
      pod.unified = OpenPath(top, name, O_RDONLY);
      continue;
    }
    UniqueFd dir = OpenPath(top, name);
    if (hierarchy.limited) {
      Limit(hierarchy, dir.get(), true);
      if (hierarchy.v2) EnableForChildren(dir.get());
      Must(::mkdirat(dir.get(), kContainer + 1, 0755), "mkdir container cgroup");
      dir = OpenPath(dir.get(), kContainer + 1);
      Limit(hierarchy, dir.get(), false);
    }
    if (hierarchy.v2) {
      pod.unified = OpenPath(dir.get(), ".", O_RDONLY);
      continue;
    }
    pod.tasks.push_back(std::move(dir));
  }
  return pod;
}

void BareCgroups::Enter(const Pod& pod) {
  for (const UniqueFd& dir : pod.tasks) WriteAt(dir.get(), "tasks", "0");
}

void BareCgroups::Remove(const std::string& name) const {
  for (const Hierarchy& hierarchy : all_) {
    const int top = hierarchy.top.get();
    const auto remove = [top](const std::string& dir) {
      while (::unlinkat(top, dir.c_str(), AT_REMOVEDIR) != 0 && errno == EBUSY) ::usleep(100);
    };
    if (hierarchy.limited) remove(name + kContainer);
    remove(name);
  }
}

}  // namespace holdfast::bench
