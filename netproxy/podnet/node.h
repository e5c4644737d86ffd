// SPDX-License-Identifier: Apache-2.0
// What the node needs once for all pods: forwarding, an address of its own to talk to pods from,
// and a route that ends packets for pod addresses which no pod has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::netproxy {

// Idempotent. Old values of changed kernel parameters are kept in `directory` first. A foreign
// route to the very CIDR stays and becomes a warning, as does a parameter that cannot be set.
Result<void> EnsureNode(sys::Rtnl& node, const std::vector<Cidr>& ranges, const DirFd& directory,
                        std::vector<std::string>& warnings);
// Takes address and route of one range away.
Result<void> RemoveRange(sys::Rtnl& node, const Cidr& range);
// Takes all of that away again and restores the parameters.
Result<void> RemoveNode(sys::Rtnl& node, const std::vector<Cidr>& ranges, const DirFd& directory);

// The smallest MTU of the links that default routes use; 1500 without any; never below what IPv6
// needs (1280).
Result<uint32_t> UplinkMtu(sys::Rtnl& node);

}  // namespace holdfast::netproxy
