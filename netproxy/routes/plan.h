// SPDX-License-Identifier: Apache-2.0
// Which routes lead to the pods of other nodes. Pure. Source: control-plane.md 8.3.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::netproxy {

// A node of the cluster.
struct NodePeer {
  std::string name;
  std::vector<Cidr> pod_ranges;
  std::vector<IpAddress> addresses;
  bool operator==(const NodePeer&) const = default;
};

// A range that is reached through the tunnel of its family.
struct TunnelledRange {
  Cidr range;
  IpAddress node;  // where it is
};

struct RoutePlan {
  std::vector<sys::Route> routes;  // over a link; one per destination, sorted by it
  std::vector<TunnelledRange> tunnelled;
  std::vector<std::string> problems;  // ranges without a way, in words
};

// Per range and family: by the first address of a peer that is on a link of this node (`local`), else by its first
// one through the tunnel, where `self` has an address that it could come from. Nobody else may have a range of `self`.
RoutePlan PlanRoutes(const std::vector<NodePeer>& peers, const std::vector<sys::Address>& local,
                     const NodePeer& self, bool tunnels);

// The one by which the others know a node in a family, its first.
std::optional<IpAddress> AddressOf(const NodePeer& node, bool v6);

// The fewest ranges that hold the same addresses, sorted.
std::vector<Cidr> Aggregate(std::vector<Cidr> ranges);

// Where a pod's own address is seen: the peers, and their pods.
std::vector<Cidr> ReachedDirectly(const std::vector<NodePeer>& peers);

}  // namespace holdfast::netproxy
