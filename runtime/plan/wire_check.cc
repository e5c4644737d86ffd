// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/wire_check.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

using namespace model;

constexpr size_t kMaxLayers = 500;            // overlayfs: OVL_MAX_STACK
constexpr size_t kMaxBpfInstructions = 4096;  // BPF_MAXINSNS
constexpr size_t kMaxGroups = 65536;          // NGROUPS_MAX
constexpr int kRlimitCount = 16;              // RLIM_NLIMITS
constexpr uint32_t kNoId = 0xffffffff;        // (uid_t)-1 means "leave" to setresuid(2)
constexpr size_t kMaxHostname = 64;
constexpr size_t kMaxAppArmorName =
    4095 - 5;                             // with "exec " before it, what the kernel reads at once
constexpr size_t kMaxSelinuxLabel = 255;  // what an option of fsconfig(2) holds

Error Bad(std::string_view field, std::string_view why) {
  return InvalidArgument(StrCat("check plan: ", field, ": ", why));
}

Result<void> CheckAbsolute(const std::string& path, std::string_view field) {
  if (!path.starts_with('/')) return Bad(field, "not an absolute path");
  return {};
}

// It becomes an option of mounts, between quotes.
Result<void> CheckLabel(const std::string& label) {
  const bool is_plain = std::ranges::all_of(
      label, [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; });
  if (!is_plain) return Bad("SELinux label", "not a label");
  if (label.size() > kMaxSelinuxLabel) return Bad("SELinux label", "longer than 255 bytes");
  return {};
}

Result<void> CheckProcess(const ProcessPlan& process) {
  if (process.argv.empty()) return Bad("argv", "empty");
  if (process.uid == kNoId || process.gid == kNoId) return Bad("user", "id 4294967295");
  if (process.groups.size() > kMaxGroups) return Bad("groups", "too many");
  for (uint32_t group : process.groups) {
    if (group == kNoId) return Bad("groups", "id 4294967295");
  }
  if (process.seccomp.program.size() > kMaxBpfInstructions)
    return Bad("seccomp", "program is too long");
  if (process.app_armor.size() > kMaxAppArmorName ||
      process.app_armor.find_first_of(std::string_view("\0\n", 2)) != std::string::npos) {
    return Bad("AppArmor profile", "not a name");
  }
  RETURN_IF_ERROR(CheckLabel(process.selinux));
  for (const RlimitPlan& limit : process.rlimits) {
    if (limit.resource < 0 || limit.resource >= kRlimitCount)
      return Bad("rlimits", "unknown resource");
    if (limit.soft > limit.hard) return Bad("rlimits", "soft above hard");
  }
  if (process.oom_score_adj < -1000 || process.oom_score_adj > 1000) {
    return Bad("oom_score_adj", "out of range");
  }
  if (process.umask > 0777) return Bad("umask", "out of range");
  return CheckAbsolute(process.cwd, "cwd");
}

// `shared_pids`: a procfs then comes from the sandbox.
Result<void> CheckMount(const MountPlan& mount, bool shared_pids) {
  RETURN_IF_ERROR(CheckAbsolute(mount.destination, "mount destination"));
  const bool needs_source = mount.kind == MountPlan::Kind::kBind ||
                            mount.kind == MountPlan::Kind::kShared ||
                            (mount.kind == MountPlan::Kind::kProc && shared_pids);
  if (needs_source != (mount.source != kNoFd)) return Bad(mount.destination, "wrong mount source");
  if (mount.mode > 07777) return Bad(mount.destination, "mode out of range");
  return {};
}

Result<void> Check(const LaunchPlan& plan) {
  if (plan.root.layers.empty()) return Bad("layers", "empty");
  if (plan.root.layers.size() > kMaxLayers) return Bad("layers", "more than 500");
  for (const std::string& layer : plan.root.layers) RETURN_IF_ERROR(CheckAbsolute(layer, "layers"));
  RETURN_IF_ERROR(CheckAbsolute(plan.root.scratch, "scratch"));
  RETURN_IF_ERROR(CheckLabel(plan.selinux));
  for (const MountPlan& mount : plan.mounts) {
    RETURN_IF_ERROR(CheckMount(mount, plan.namespaces.pid != kNoFd));
  }
  for (const DevicePlan& device : plan.devices) {
    if (device.path.empty() || device.path.ends_with('/') || device.mode > 07777) {
      return Bad("devices", "malformed");
    }
    if (device.path[0] == '/' && plan.namespaces.user != kNoFd) {
      return Bad("devices", "outside /dev in a user namespace");
    }
  }
  for (const std::string& path : plan.masked_paths)
    RETURN_IF_ERROR(CheckAbsolute(path, "masked path"));
  for (const std::string& path : plan.read_only_paths) {
    RETURN_IF_ERROR(CheckAbsolute(path, "read-only path"));
  }
  if (plan.namespaces.new_pid && plan.namespaces.pid != kNoFd) {
    return Bad("pid namespace", "both new and joined");
  }
  const bool own_users = plan.namespaces.user != kNoFd;
  if (own_users != (plan.root.owner != 0)) return Bad("root owner", "not of the user namespace");
  if (plan.root.owner == kNoId) return Bad("root owner", "id 4294967295");
  if (own_users && plan.host_devices == kNoFd && !plan.devices.empty()) {
    return Bad("devices", "no device can be made in a user namespace");
  }
  return CheckProcess(plan.process);
}

Result<void> Check(const ExecPlan& plan) {
  if (plan.target == kNoFd) return Bad("target", "missing");
  return CheckProcess(plan.process);
}

Result<void> Check(const SandboxPlan& plan) {
  if (plan.hostname.size() > kMaxHostname) return Bad("hostname", "longer than 64 bytes");
  if (!plan.hostname.empty() && !plan.uts) return Bad("hostname", "without a uts namespace");
  for (const auto& [name, value] : plan.sysctls) {
    if (name.empty() || name[0] == '/' || name.find("..") != std::string::npos) {
      return Bad("sysctl", name);
    }
    if (value.find('\n') != std::string::npos) return Bad(name, "value with a line break");
  }
  RETURN_IF_ERROR(CheckLabel(plan.init_selinux));
  if (plan.uid_map.empty() != plan.gid_map.empty()) return Bad("id maps", "only one is given");
  return {};
}

}  // namespace

Result<void> CheckPlan(const Plan& plan) {
  return std::visit([](const auto& p) { return Check(p); }, plan);
}

}  // namespace holdfast::runtime
