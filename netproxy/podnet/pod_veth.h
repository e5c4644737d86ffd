// SPDX-License-Identifier: Apache-2.0
// The veth pair of a pod: what it is called, and that it is there.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::netproxy {

// The node's end of every pod's veth; with the form of the name it tells our interfaces apart.
inline constexpr sys::MacAddress kNodeMac = {0x02, 0x68, 0x66, 0x00, 0x00, 0x01};

// "hf" + 11 hex digits of the uid's hash: at most 15 characters with a prefix of up to 4. The node's end has it as its own
// name, or as one more where it lay ready (ready_link.h).
std::string InterfaceName(const std::string& prefix, const PodUid& uid);
// The InterfaceName() of the pod whose node's end this is; "" when it is none: only we can have made one that has that
// form, or is called as one that lay ready and says whose it is.
std::string PodInterface(const std::string& prefix, const sys::Link& link);

// What `ip link` shows people at the node's end; the uid is its last word.
std::string InterfaceAlias(const std::string& pod_namespace, const std::string& pod_name,
                           const PodUid& uid);

struct PodVeth {
  sys::VethEnds ends;
  sys::MacAddress pod_mac{};  // of the pod's end
};

// Makes it, or finds it, with InterfaceName() as its own. One of that name that leads to another (dying)
// namespace is removed first, as is one that lies ready in this one. kConflict when `netns` has a foreign
// eth0, or a foreign interface is in the way.
Result<PodVeth> EnsureVeth(sys::Rtnl& node, int netns, const std::string& prefix, const PodUid& uid,
                           uint32_t mtu);

}  // namespace holdfast::netproxy
