// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/filesystem.h"

#include <algorithm>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

using Kind = model::MountPlan::Kind;

constexpr uint64_t kDevBytes = 64ull
                               << 10;  // nodes and links only; volumes are mounts of their own
constexpr uint64_t kShmBytes = 64ull << 20;
constexpr std::string_view kDev = "/dev";

// feature-map 2.2.7: what tells about, or reaches into, the host.
constexpr std::string_view kMasked[] = {
    "/proc/acpi",       "/proc/asound",        "/proc/interrupts",  "/proc/kcore",
    "/proc/keys",       "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
    "/proc/timer_list", "/proc/timer_stats",   "/sys/firmware",     "/sys/devices/virtual/powercap",
};
// feature-map 2.2.8, and /proc/dynamic_debug: its mode alone lets root switch the node's kernel
// messages (CONFIG_DYNAMIC_DEBUG, Debian's kernels have it).
constexpr std::string_view kReadOnly[] = {
    "/proc/bus", "/proc/dynamic_debug", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
};

struct Device {
  const char* name;
  uint32_t major;
  uint32_t minor;
};
constexpr Device kDevices[] = {
    {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

// Without a trailing "/" and without empty and "." parts, so that equal destinations compare equal.
std::string Clean(std::string_view path) {
  std::string clean;
  while (!path.empty()) {
    const size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
    if (part.empty() || part == ".") continue;
    clean.append("/").append(part);
  }
  return clean.empty() ? "/" : clean;
}

bool IsBelow(std::string_view path, std::string_view directory) {
  return path == directory ||
         (path.starts_with(directory) && path.substr(directory.size()).starts_with('/'));
}

model::MountPlan Default(Kind kind, const char* destination) {
  model::MountPlan mount;
  mount.kind = kind;
  mount.destination = destination;
  mount.no_suid = mount.no_dev = mount.no_exec = true;
  return mount;
}

model::MountPlan DevMount() {
  model::MountPlan dev = Default(Kind::kDev, "/dev");
  dev.no_dev = dev.no_exec = false;
  dev.strict_atime = true;
  dev.mode = 0755;
  dev.size_bytes = kDevBytes;
  return dev;
}

model::MountPlan ShmMount(const FilesystemInput& input) {
  model::MountPlan shm = Default(Kind::kTmpfs, "/dev/shm");
  if (input.shm != model::kNoFd) {
    shm.kind = input.shm_is_bind ? Kind::kBind : Kind::kShared;
    shm.source = input.shm;
    return shm;
  }
  shm.mode = 01777;
  shm.size_bytes = kShmBytes;
  return shm;
}

void AddCgroupMounts(const FilesystemInput& input, bool privileged, model::LaunchPlan& plan) {
  if (input.cgroup_unified) {
    model::MountPlan unified = Default(Kind::kCgroup2, "/sys/fs/cgroup");
    unified.read_only = !privileged;
    unified.options = input.cgroup2_options;
    plan.mounts.push_back(std::move(unified));
    return;
  }
  if (input.cgroup_v1.empty()) return;
  model::MountPlan top = Default(Kind::kTmpfs, "/sys/fs/cgroup");
  top.mode = 0755;
  top.size_bytes = kDevBytes;
  plan.mounts.push_back(std::move(top));
  for (const FilesystemInput::Hierarchy& hierarchy : input.cgroup_v1) {
    model::MountPlan mount = Default(Kind::kCgroup1, "/sys/fs/cgroup");
    mount.destination += "/" + hierarchy.name;
    mount.options = hierarchy.options;
    mount.read_only = !privileged;
    plan.mounts.push_back(std::move(mount));
  }
  // Sealed once the directories for the hierarchies are made.
  if (!privileged) plan.read_only_paths.emplace_back("/sys/fs/cgroup");
}

void AddDefaults(const model::ContainerSpec& spec, const FilesystemInput& input,
                 model::LaunchPlan& plan) {
  model::MountPlan proc = Default(Kind::kProc, "/proc");
  proc.source = input.procfs;
  plan.mounts.push_back(std::move(proc));
  plan.mounts.push_back(DevMount());
  model::MountPlan pts = Default(Kind::kDevpts, "/dev/pts");
  pts.no_dev = false;
  plan.mounts.push_back(std::move(pts));
  plan.mounts.push_back(ShmMount(input));
  plan.mounts.push_back(Default(Kind::kMqueue, "/dev/mqueue"));
  model::MountPlan sys = Default(Kind::kSysfs, "/sys");
  sys.read_only = !spec.security.privileged;
  plan.mounts.push_back(std::move(sys));
  AddCgroupMounts(input, spec.security.privileged, plan);
}

Result<model::MountPlan> Volume(const model::MountSpec& spec, model::FdIndex source) {
  model::MountPlan mount;
  if (!spec.destination.starts_with('/')) {
    return InvalidArgument(StrCat("mount ", spec.destination, ": destination is not absolute"));
  }
  mount.destination = Clean(spec.destination);
  if (mount.destination == "/") return InvalidArgument("mount /: the root cannot be a volume");
  if (IsBelow(mount.destination, "/proc")) {
    return InvalidArgument(
        StrCat("mount ", mount.destination, ": nothing may be mounted on /proc"));
  }
  mount.read_only = spec.read_only;
  mount.recursive_read_only = spec.recursive_read_only;
  switch (spec.propagation) {
    case model::MountPropagation::kPrivate:
      mount.propagation = model::MountPlan::Propagation::kPrivate;
      break;
    case model::MountPropagation::kHostToContainer:
      mount.propagation = model::MountPlan::Propagation::kSlave;
      break;
    case model::MountPropagation::kBidirectional:
      mount.propagation = model::MountPlan::Propagation::kShared;
      break;
  }
  if (spec.kind == model::MountSpec::Kind::kTmpfs) {
    mount.kind = Kind::kTmpfs;
    mount.no_suid = mount.no_dev = true;
    mount.mode = 01777;
    mount.size_bytes = spec.size_bytes;
    return mount;
  }
  mount.kind = Kind::kBind;
  mount.source = source;
  return mount;
}

// A volume takes the place of the default mount of the same destination, at the default's position,
// so that a default below it (/dev/pts below a volume on /dev) still comes after it.
Result<void> AddVolumes(const model::ContainerSpec& spec, const FilesystemInput& input,
                        model::LaunchPlan& plan) {
  const size_t defaults = plan.mounts.size();
  for (size_t i = 0; i < spec.mounts.size(); ++i) {
    ASSIGN_OR_RETURN(model::MountPlan volume, Volume(spec.mounts[i], input.volumes[i]));
    const auto end = plan.mounts.begin() + static_cast<std::ptrdiff_t>(defaults);
    const auto same = std::find_if(plan.mounts.begin(), end, [&](const model::MountPlan& mount) {
      return mount.destination == volume.destination;
    });
    if (same != end) {
      *same = std::move(volume);
    } else {
      plan.mounts.push_back(std::move(volume));
    }
  }
  return {};
}

// As a plan has it: relative to /dev, or absolute elsewhere.
Result<std::string> DevicePath(const model::DeviceSpec& spec, const model::LaunchPlan& plan) {
  const auto bad = [&](const char* why) {
    return InvalidArgument(StrCat("device ", spec.destination, ": ", why));
  };
  if (!spec.destination.starts_with('/')) return bad("the path is not absolute");
  std::string path = Clean(spec.destination);
  if (path == "/" || path == kDev) return bad("it cannot take the place of a directory");
  if (IsBelow(path, "/proc")) return bad("nothing may be made on /proc");
  if (!IsBelow(path, kDev)) return path;
  const bool own_dev = std::ranges::any_of(
      plan.mounts, [](const model::MountPlan& mount) { return mount.kind == Kind::kDev; });
  if (!own_dev) return bad("/dev is a volume, in which no device is made");
  return path.substr(kDev.size() + 1);
}

// The standard ones, those of a privileged container, and the pod's own, which go before others of the same path.
Result<void> AddDevices(const model::ContainerSpec& spec, const FilesystemInput& input,
                        model::LaunchPlan& plan) {
  for (const Device& device : kDevices) {
    plan.devices.push_back({device.name, false, device.major, device.minor, 0666, 0, 0});
  }
  if (spec.security.privileged) {
    plan.devices.insert(plan.devices.end(), input.host_devices.begin(), input.host_devices.end());
  }
  for (const model::DeviceSpec& own : spec.devices) {
    ASSIGN_OR_RETURN(const std::string path, DevicePath(own, plan));
    std::erase_if(plan.devices, [&](const auto& device) { return device.path == path; });
    const model::BlockDevice& device = own.device;
    plan.devices.push_back(
        {path, true, device.major, device.minor, device.mode, device.uid, device.gid});
  }
  return {};
}

}  // namespace

std::string Cgroup2Options(std::string_view mountinfo) {
  constexpr std::string_view kType = " - cgroup2 ";
  constexpr std::string_view kOfTheTree[] = {"nsdelegate",         "favordynmods",
                                             "memory_localevents", "memory_recursiveprot",
                                             "pids_localevents",   "memory_hugetlb_accounting"};
  const size_t type = mountinfo.find(kType);
  if (type == std::string_view::npos) return {};
  std::string_view rest = mountinfo.substr(type + kType.size());
  rest = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(rest.find(' '), rest.size()));  // the source
  if (!rest.empty()) rest.remove_prefix(1);
  std::string options;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    if (std::ranges::find(kOfTheTree, rest.substr(0, end)) != std::end(kOfTheTree)) {
      options.append(options.empty() ? "" : ",").append(rest.substr(0, end));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return options;
}

Result<void> CompileFilesystem(const model::ContainerSpec& spec, const FilesystemInput& input,
                               model::LaunchPlan& plan) {
  AddDefaults(spec, input, plan);
  RETURN_IF_ERROR(AddVolumes(spec, input, plan));
  RETURN_IF_ERROR(AddDevices(spec, input, plan));
  if (spec.security.privileged) return {};
  if (spec.security.unmasked_proc) return {};
  plan.masked_paths.assign(std::begin(kMasked), std::end(kMasked));
  plan.masked_paths.insert(plan.masked_paths.end(), input.throttle_paths.begin(),
                           input.throttle_paths.end());
  plan.read_only_paths.insert(plan.read_only_paths.end(), std::begin(kReadOnly),
                              std::end(kReadOnly));
  return {};
}

}  // namespace holdfast::runtime
