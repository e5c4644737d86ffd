// SPDX-License-Identifier: Apache-2.0
// A veth that was made before there was a pod for it, in a network namespace that lies ready
// (runtime/containers/sandbox_pool.h). Both ends are down and have no address; it is a pod's when the node's end says so by
// a second name and its alias. Nothing remembers it: its own name is that of the namespace which the other end is in, so
// whoever has the namespace finds it, after a restart too, and it ends with the namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/podnet/link_files.h"
#include "netproxy/podnet/pod_veth.h"

namespace holdfast::netproxy {

// What a pod's link has from the beginning.
struct LinkShape {
  uint32_t mtu = 0;
  bool v6 = false;  // the pod gets an IPv6 address
};

// kAlreadyExists when the namespace has an eth0. What could only not be tuned goes to `warnings`.
Result<void> MakeReadyLink(sys::Rtnl& node, NodeSysctls& sysctls, int netns,
                           const std::string& prefix, const LinkShape& shape,
                           std::vector<std::string>& warnings);
// That which lies ready in the namespace, or lay ready and is the pod's by now. nullopt: there is none of that shape.
Result<std::optional<PodVeth>> FindReadyLink(sys::Rtnl& node, int netns, const std::string& prefix,
                                             const LinkShape& shape);
// True for the names that these links have.
bool IsNameOfReady(const std::string& prefix, const std::string& name);
// Of whatever shape. Success when there is none.
Result<void> DropReadyLinks(sys::Rtnl& node, int netns, const std::string& prefix);

}  // namespace holdfast::netproxy
