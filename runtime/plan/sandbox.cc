// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/sandbox.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kMaxSysctlBytes = 1024;

// The sysctls of the ipc namespace: exact names, and everything below fs/mqueue.
constexpr std::string_view kIpcSysctls[] = {
    "kernel/msgmax", "kernel/msgmnb", "kernel/msgmni", "kernel/sem",
    "kernel/shmall", "kernel/shmmax", "kernel/shmmni", "kernel/shm_rmid_forced",
};

// "net.ipv4.conf.eth0/100.x" has both separators; the first one decides which it is.
std::string ToPath(const std::string& name) {
  const size_t first = name.find_first_of("./");
  if (first == std::string::npos || name[first] == '/') return name;
  std::string path = name;
  for (char& c : path) c = c == '.' ? '/' : c == '/' ? '.' : c;
  return path;
}

bool IsWellFormed(const std::string& path) {
  if (path.empty() || path.starts_with('/') || path.ends_with('/')) return false;
  if (path.find("..") != std::string::npos || path.find("//") != std::string::npos) return false;
  return std::ranges::all_of(path, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '_' || c == '-' || c == '.';
  });
}

// Numbers and what lists of them need: nothing that a sysctl's parser could take for more.
bool IsPlainValue(const std::string& value) {
  if (value.empty() || value.size() > kMaxSysctlBytes) return false;
  return std::ranges::all_of(value, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ' ' ||
           c == '\t' || c == '-' || c == '_' || c == '.' || c == ',' || c == ':';
  });
}

bool IsIpc(const std::string& path) {
  return path.starts_with("fs/mqueue/") ||
         std::ranges::find(kIpcSysctls, path) != std::end(kIpcSysctls);
}

Result<void> CheckNamespaced(const model::SandboxSpec& spec, const std::string& name,
                             const std::string& path) {
  if (path.starts_with("net/")) {
    if (!spec.host_network) return {};
    return InvalidArgument(StrCat("sysctl ", name, ": not allowed with host net enabled"));
  }
  if (IsIpc(path)) {
    if (!spec.host_ipc) return {};
    return InvalidArgument(StrCat("sysctl ", name, ": not allowed with host ipc enabled"));
  }
  return InvalidArgument(StrCat("sysctl ", name, ": not namespaced"));
}

}  // namespace

Result<model::SandboxPlan> CompileSandbox(const model::SandboxSpec& spec) {
  model::SandboxPlan plan;
  plan.network = !spec.host_network;
  plan.ipc = !spec.host_ipc;
  plan.uts = !spec.host_network;
  if (plan.uts) plan.hostname = spec.hostname;
  plan.shm_size_bytes = spec.host_ipc ? 0 : spec.shm_size_bytes;
  if (plan.network && spec.host_users) {
    plan.sysctls["net/ipv4/ip_unprivileged_port_start"] = "0";
    plan.sysctls["net/ipv4/ping_group_range"] = "0 2147483647";
  }
  for (const auto& [name, value] : spec.sysctls) {
    const std::string path = ToPath(name);
    if (!IsWellFormed(path))
      return InvalidArgument(StrCat("sysctl \"", name, "\": malformed name"));
    if (!IsPlainValue(value)) return InvalidArgument(StrCat("sysctl ", name, ": malformed value"));
    RETURN_IF_ERROR(CheckNamespaced(spec, name, path));
    plan.sysctls[path] = value;
  }
  return plan;
}

}  // namespace holdfast::runtime
