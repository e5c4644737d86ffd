// SPDX-License-Identifier: Apache-2.0
#include "netproxy/routes/plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "holdfast/base/strings.h"
#include "netproxy/podnet/wiring.h"

namespace holdfast::netproxy {
namespace {

bool Overlap(const Cidr& a, const Cidr& b) {
  return a.Contains(b.network) || b.Contains(a.network);
}

using Holders = std::map<Cidr, std::string>;  // none overlaps another

// Of ranges that do not overlap only the two beside it can overlap one more.
Holders::const_iterator HolderOf(const Holders& holders, const Cidr& range) {
  const auto next = holders.lower_bound(range);
  if (next != holders.end() && Overlap(next->first, range)) return next;
  if (next != holders.begin() && Overlap(std::prev(next)->first, range)) return std::prev(next);
  return holders.end();
}

// A single address is no network that others could be on.
std::optional<int> LinkTowards(const std::vector<sys::Address>& local, const IpAddress& peer) {
  for (const sys::Address& address : local) {
    if (address.prefix >= address.ip.MaxPrefix() || address.ip == peer) continue;
    const Cidr network{Cidr::Mask(address.ip, address.prefix), address.prefix};
    if (network.Contains(peer)) return address.link;
  }
  return std::nullopt;
}

std::optional<sys::Route> RouteOverLink(const Cidr& range, const NodePeer& peer,
                                        const std::vector<sys::Address>& local) {
  for (const IpAddress& address : peer.addresses) {
    if (address.v6 != range.network.v6) continue;
    const auto link = LinkTowards(local, address);
    if (!link) continue;
    sys::Route route;
    route.destination = range;
    route.link = *link;
    route.gateway = address;
    route.protocol = kRouteProtocol;
    return route;
  }
  return std::nullopt;
}

// kNotFound in words when there is no way.
Result<IpAddress> NodeThroughTunnel(const Cidr& range, const NodePeer& peer, const NodePeer& self,
                                    bool tunnels) {
  const auto address = AddressOf(peer, range.network.v6);
  if (!address) return NotFound("it has no address of this family");
  if (!tunnels) return NotFound("none of its addresses is on a link of this node");
  if (!AddressOf(self, range.network.v6)) return NotFound("this node has none of this family");
  return *address;
}

// The two halves of one range.
bool AreHalves(const Cidr& a, const Cidr& b) {
  if (a.prefix != b.prefix || a.prefix == 0 || a.network.v6 != b.network.v6) return false;
  const auto parent = static_cast<uint8_t>(a.prefix - 1);
  return a.network != b.network && Cidr::Mask(a.network, parent) == Cidr::Mask(b.network, parent);
}

}  // namespace

std::optional<IpAddress> AddressOf(const NodePeer& node, bool v6) {
  const auto it = std::ranges::find(node.addresses, v6, &IpAddress::v6);
  return it == node.addresses.end() ? std::nullopt : std::optional(*it);
}

RoutePlan PlanRoutes(const std::vector<NodePeer>& peers, const std::vector<sys::Address>& local,
                     const NodePeer& self, bool tunnels) {
  RoutePlan plan;
  Holders holders;
  for (const Cidr& range : self.pod_ranges) holders.emplace(range, "this node");
  for (const NodePeer& peer : peers) {
    for (const Cidr& range : peer.pod_ranges) {
      const auto problem = [&](const std::string& why) {
        plan.problems.push_back(
            StrCat("no route to the pods of node ", peer.name, " (", range.ToString(), "): ", why));
      };
      const auto held = HolderOf(holders, range);
      if (held != holders.end()) {
        problem(StrCat("it overlaps ", held->first.ToString(), " of ", held->second));
        continue;
      }
      holders.emplace(range, "node " + peer.name);
      if (auto route = RouteOverLink(range, peer, local)) {
        plan.routes.push_back(*route);
        continue;
      }
      const auto node = NodeThroughTunnel(range, peer, self, tunnels);
      if (node) {
        plan.tunnelled.push_back({range, *node});
      } else {
        problem(node.error().message());
      }
    }
  }
  std::ranges::sort(plan.routes, {}, &sys::Route::destination);
  return plan;
}

// From the end of the sorted list so far: what holds the next one stays, two halves become one, which may be
// the half of the one before it.
std::vector<Cidr> Aggregate(std::vector<Cidr> ranges) {
  std::ranges::sort(ranges);
  std::vector<Cidr> out;
  for (const Cidr& range : ranges) {
    if (!out.empty() && out.back().Contains(range.network)) continue;
    out.push_back(range);
    while (out.size() > 1 && AreHalves(out[out.size() - 2], out.back())) {
      out.pop_back();
      out.back().prefix--;
    }
  }
  return out;
}

std::vector<Cidr> ReachedDirectly(const std::vector<NodePeer>& peers) {
  std::vector<Cidr> ranges;
  for (const NodePeer& peer : peers) {
    ranges.insert(ranges.end(), peer.pod_ranges.begin(), peer.pod_ranges.end());
    for (const IpAddress& address : peer.addresses) {
      ranges.push_back({address, address.MaxPrefix()});
    }
  }
  return Aggregate(std::move(ranges));
}

}  // namespace holdfast::netproxy
