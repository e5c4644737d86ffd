// SPDX-License-Identifier: Apache-2.0
// Names of sysctls as Kubernetes writes them. Pure.
#pragma once

#include <string>
#include <string_view>

namespace holdfast::agent::kube {

// "net/ipv4/conf/eth0.100/x" and "net.ipv4.conf.eth0/100.x" are one sysctl: the first separator
// decides which it is written with. Returned with dots.
std::string DottedSysctl(std::string_view name);

// The namespace that has a value of its own of it: "net", "ipc", "" when it is the machine's (or
// unknown). `name` with dots; a beginning such as "net." or "kernel.msg" too.
std::string SysctlNamespace(std::string_view name);

}  // namespace holdfast::agent::kube
