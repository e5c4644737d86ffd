// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/sysctls.h"

#include <algorithm>
#include <string_view>

#include "agent/kube/sysctl_names.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// All are there since Linux 4.15.
constexpr std::string_view kSafe[] = {
    "kernel.shm_rmid_forced",           "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",        "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",     "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",      "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",          "net.ipv4.tcp_wmem",
};

bool Covers(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool IsAllowed(const std::string& name, const std::vector<std::string>& allowed) {
  return std::ranges::find(kSafe, name) != std::end(kSafe) ||
         std::ranges::any_of(allowed, [&](const std::string& pattern) {
           return Covers(kube::DottedSysctl(pattern), name);
         });
}

}  // namespace

std::string ForbiddenSysctl(const corev1::PodSpec& spec, const std::vector<std::string>& allowed) {
  for (const corev1::Sysctl& sysctl : spec.securitycontext().sysctls()) {
    const std::string name = kube::DottedSysctl(sysctl.name());
    if (!IsAllowed(name, allowed)) return StrCat("\"", name, "\" not allowlisted");
    const std::string space = kube::SysctlNamespace(name);
    const bool hosts = (space == "net" && spec.hostnetwork()) || (space == "ipc" && spec.hostipc());
    if (hosts) return StrCat("\"", name, "\" not allowed with host ", space, " enabled");
  }
  return "";
}

}  // namespace holdfast::agent
