// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/limit/root.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "holdfast/base/strings.h"
#include "tests/bench/limit/must.h"

namespace holdfast::bench {
namespace {

// runtime/plan/filesystem.cc
constexpr const char* kMasked[] = {
    "proc/acpi",       "proc/asound",        "proc/interrupts",  "proc/kcore",
    "proc/keys",       "proc/latency_stats", "proc/sched_debug", "proc/scsi",
    "proc/timer_list", "proc/timer_stats",   "sys/firmware",     "sys/devices/virtual/powercap"};
constexpr const char* kReadOnly[] = {"proc/bus", "proc/dynamic_debug", "proc/fs",
                                     "proc/irq", "proc/sys",           "proc/sysrq-trigger"};
struct Node {
  const char* path;
  unsigned major, minor;
};
constexpr Node kNodes[] = {{"dev/null", 1, 3},   {"dev/zero", 1, 5},    {"dev/full", 1, 7},
                           {"dev/random", 1, 8}, {"dev/urandom", 1, 9}, {"dev/tty", 5, 0}};
struct Link {
  const char *path, *target;
};
constexpr Link kLinks[] = {{"dev/fd", "/proc/self/fd"},       {"dev/stdin", "/proc/self/fd/0"},
                           {"dev/stdout", "/proc/self/fd/1"}, {"dev/stderr", "/proc/self/fd/2"},
                           {"dev/core", "/proc/kcore"},       {"dev/ptmx", "pts/ptmx"}};
constexpr unsigned long kHarmless = MS_NOSUID | MS_NODEV | MS_NOEXEC;

void Mount(const char* type, const char* at, unsigned long flags, const char* options = nullptr) {
  Must(::mount(type, at, type, flags, options), at);
}

void MountDev() {
  Mount("tmpfs", "dev", MS_NOSUID | MS_STRICTATIME, "mode=755,size=65536");
  for (const char* dir : {"dev/pts", "dev/shm", "dev/mqueue"}) Must(::mkdir(dir, 0755), dir);
  Mount("devpts", "dev/pts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5");
  Mount("tmpfs", "dev/shm", kHarmless, "mode=1777,size=67108864");
  Mount("mqueue", "dev/mqueue", kHarmless);
}

void FillDev() {
  for (const Node& node : kNodes) {
    Must(::mknod(node.path, S_IFCHR | 0666, makedev(node.major, node.minor)), node.path);
  }
  for (const Link& link : kLinks) Must(::symlink(link.target, link.path), link.path);
}

void MountCgroups(const std::vector<BareCgroups::Visible>& cgroups) {
  if (cgroups.empty()) return Mount("cgroup2", "sys/fs/cgroup", kHarmless | MS_RDONLY);
  Mount("tmpfs", "sys/fs/cgroup", kHarmless, "mode=755,size=65536");
  for (const auto& [name, options] : cgroups) {
    const std::string at = StrCat("sys/fs/cgroup/", name);
    Must(::mkdir(at.c_str(), 0755), at.c_str());
    Mount("cgroup", at.c_str(), kHarmless | MS_RDONLY, options.c_str());
  }
}

// The first directory gets an empty file system, the others show the same one.
void Mask(const char* path, const char*& empty) {
  struct stat st{};
  if (::stat(path, &st) != 0) return;
  if (!S_ISDIR(st.st_mode)) {
    Must(::mount("dev/null", path, nullptr, MS_BIND, nullptr), path);
  } else if (empty != nullptr) {
    Must(::mount(empty, path, nullptr, MS_BIND, nullptr), path);
  } else {
    Mount("tmpfs", path, kHarmless | MS_RDONLY, "size=0,mode=0555");
    empty = path;
  }
}

}  // namespace

std::vector<std::string> ThrottlePaths() {
  std::vector<std::string> paths;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/cpu", none)) {
    const std::string path = entry.path() / "thermal_throttle";
    if (std::filesystem::exists(path)) paths.push_back(path.substr(1));
  }
  return paths;
}

void MountContainerRoot(const std::string& layer, const std::string& scratch,
                        const std::vector<BareCgroups::Visible>& cgroups) {
  const std::string options =
      StrCat("lowerdir=", layer, ",upperdir=", scratch, "/upper,workdir=", scratch, "/work");
  Mount("overlay", layer.c_str(), 0, options.c_str());
  Must(::chdir(layer.c_str()), "chdir");
  Mount("proc", "proc", kHarmless);
  MountDev();
  Mount("sysfs", "sys", kHarmless | MS_RDONLY);
  MountCgroups(cgroups);
  FillDev();
}

void HideNode(const std::vector<std::string>& throttle_paths) {
  const char* empty = nullptr;
  for (const char* path : kMasked) Mask(path, empty);
  for (const std::string& path : throttle_paths) Mask(path.c_str(), empty);
  for (const char* path : kReadOnly) {
    if (::mount(path, path, nullptr, MS_BIND | MS_REC, nullptr) != 0) continue;  // not there
    Must(::mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), path);
  }
  Must(::mount(nullptr, "sys/fs/cgroup", nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | kHarmless,
               nullptr),
       "sys/fs/cgroup");
}

void EnterContainerRoot() {
  Must(::syscall(SYS_pivot_root, ".", "."), "pivot_root");
  Must(::umount2(".", MNT_DETACH), "old root");
  Must(::chdir("/"), "chdir /");
}

}  // namespace holdfast::bench
