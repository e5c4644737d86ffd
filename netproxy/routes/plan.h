// SPDX-License-Identifier: Apache-2.0
// Which routes lead to the pods of other nodes. Pure. Source: control-plane.md 8.3.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::netproxy {

// Another node of the cluster.
struct NodePeer {
  std::string name;
  std::vector<Cidr> pod_ranges;
  std::vector<IpAddress> addresses;
  bool operator==(const NodePeer&) const = default;
};

struct RoutePlan {
  std::vector<sys::Route> routes;     // one per destination, sorted by it
  std::vector<std::string> problems;  // ranges without a way, in words
};

// By the first address of a peer that is on a link of this node (`local`), per range and family. `own`: this
// node's ranges, which nobody else may have.
RoutePlan PlanRoutes(const std::vector<NodePeer>& peers, const std::vector<sys::Address>& local,
                     const std::vector<Cidr>& own);

// The fewest ranges that hold the same addresses, sorted.
std::vector<Cidr> Aggregate(std::vector<Cidr> ranges);

// Where a pod's own address is seen: the peers, and their pods.
std::vector<Cidr> ReachedDirectly(const std::vector<NodePeer>& peers);

}  // namespace holdfast::netproxy
