// SPDX-License-Identifier: Apache-2.0
// Parameters of a pod's link that have files only: those of IPv6, below /proc/sys/net/ipv6/conf. They are the link's
// own and stay with it when it gets another name. What cannot be written goes to `warnings`: a pod works without.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/sysctl.h"

namespace holdfast::netproxy {

inline constexpr char kPodInterface[] = "eth0";

// Opened once, in the node's namespace. One thread at a time.
struct NodeSysctls {
  sys::SysctlDir ipv6{"net/ipv6/conf"};
  sys::RenewedProcfs pods;  // where the pods' own are reached
  NsFd home;                // where a thread comes back to that was in a pod's namespace
};

// `v6`: the pod has an IPv6 address.
void TuneNodeEnd(const NodeSysctls& sysctls, const std::string& interface, bool v6,
                 std::vector<std::string>& warnings);
// Inside the pod's namespace; `procfs`: of NodeSysctls::pods.
void TunePodEnd(bool v6, const MountFd& procfs, std::vector<std::string>& warnings);

}  // namespace holdfast::netproxy
