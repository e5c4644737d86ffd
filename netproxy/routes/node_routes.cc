// SPDX-License-Identifier: Apache-2.0
#include "netproxy/routes/node_routes.h"

#include <map>
#include <set>
#include <utility>

#include "holdfast/base/strings.h"
#include "netproxy/podnet/wiring.h"

namespace holdfast::netproxy {
namespace {

bool IsOurs(const sys::Route& route) {
  return route.protocol == kRouteProtocol && route.gateway.has_value();
}

bool IsSameWay(const sys::Route& a, const sys::Route& b) {
  return a.gateway == b.gateway && a.link == b.link && a.source == b.source;
}

}  // namespace

NodeRoutes::NodeRoutes(NodeRoutesOptions options, sys::Rtnl rtnl, TunnelRules rules)
    : options_(std::move(options)),
      rtnl_(std::move(rtnl)),
      rules_(std::move(rules)),
      tunnel4_(rtnl_, StrCat("vx-", options_.interface_prefix, "4")),
      tunnel6_(rtnl_, StrCat("vx-", options_.interface_prefix, "6")) {}

Result<std::unique_ptr<NodeRoutes>> NodeRoutes::Open(NodeRoutesOptions options) {
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::Open());
  ASSIGN_OR_RETURN(TunnelRules rules, TunnelRules::Open(options.table_name + "-tunnel"));
  return std::unique_ptr<NodeRoutes>(
      new NodeRoutes(std::move(options), std::move(rtnl), std::move(rules)));
}

// Tunnels before the kernel's routes are read: a device that is made anew takes its routes along.
Result<std::vector<std::string>> NodeRoutes::Apply(const std::vector<NodePeer>& peers,
                                                   const NodePeer& self) {
  ASSIGN_OR_RETURN(const std::vector<sys::Address> local, rtnl_.ListAddresses());
  RoutePlan plan = PlanRoutes(peers, local, self, options_.tunnels);
  RETURN_IF_ERROR(ApplyTunnels(plan, self, local));
  RETURN_IF_ERROR(ApplyRoutes(plan.routes, plan.problems));
  return std::move(plan.problems);
}

// Nobody can send through a device before the rules say who may.
Result<void> NodeRoutes::ApplyTunnels(RoutePlan& plan, const NodePeer& self,
                                      const std::vector<sys::Address>& local) {
  std::vector<IpAddress> nodes;
  for (const TunnelledRange& one : plan.tunnelled) nodes.push_back(one.node);
  RETURN_IF_ERROR(rules_.Apply(nodes));
  RETURN_IF_ERROR(ApplyTunnel(tunnel4_, false, self, local, plan));
  return ApplyTunnel(tunnel6_, true, self, local, plan);
}

// Adds the routes of the tunnelled ranges of one family to the plan's.
Result<void> NodeRoutes::ApplyTunnel(Tunnel& tunnel, bool v6, const NodePeer& self,
                                     const std::vector<sys::Address>& local, RoutePlan& plan) {
  TunnelEnds ends;
  std::set<IpAddress> peers;
  for (const TunnelledRange& one : plan.tunnelled) {
    if (one.range.network.v6 == v6) peers.insert(one.node);
  }
  const auto own = AddressOf(self, v6);
  if (peers.empty() || !own) return tunnel.Remove();
  ends.own = *own;
  ends.peers.assign(peers.begin(), peers.end());
  for (const Cidr& range : self.pod_ranges) {
    if (range.network.v6 == v6 && !ends.pod_side) ends.pod_side = range.network;
  }
  auto link = tunnel.Apply(ends, local);
  if (!link) return std::move(link.error()).Wrap("tunnel " + tunnel.name());
  for (const TunnelledRange& one : plan.tunnelled) {
    if (one.range.network.v6 != v6) continue;
    sys::Route& route = plan.routes.emplace_back();
    route.destination = one.range;
    route.link = *link;
    route.gateway = TunnelNextHop(one.node);
    route.source = ends.pod_side;
    route.protocol = kRouteProtocol;
  }
  return {};
}

Result<void> NodeRoutes::ApplyRoutes(const std::vector<sys::Route>& wanted_routes,
                                     std::vector<std::string>& problems) {
  ASSIGN_OR_RETURN(const std::vector<sys::Route> routes, rtnl_.ListRoutes());
  std::set<Cidr> wanted;
  for (const sys::Route& route : wanted_routes) wanted.insert(route.destination);
  std::map<Cidr, const sys::Route*> there;
  for (const sys::Route& route : routes) {
    if (wanted.contains(route.destination)) {
      there.emplace(route.destination, &route);
    } else if (IsOurs(route)) {
      RETURN_IF_ERROR(rtnl_.DeleteRoute(route));
    }
  }
  for (const sys::Route& route : wanted_routes) {
    const auto known = there.find(route.destination);
    if (known == there.end()) {
      RETURN_IF_ERROR(rtnl_.AddRoute(route));
    } else if (!IsOurs(*known->second)) {
      problems.push_back(StrCat("route ", route.destination.ToString(), " by ",
                                route.gateway->ToString(), ": a foreign route is there"));
    } else if (!IsSameWay(*known->second, route)) {
      RETURN_IF_ERROR(rtnl_.ReplaceRoute(route));
    }
  }
  return {};
}

Result<void> NodeRoutes::Remove() {
  ASSIGN_OR_RETURN(const std::vector<sys::Route> routes, rtnl_.ListRoutes());
  for (const sys::Route& route : routes) {
    if (IsOurs(route)) RETURN_IF_ERROR(rtnl_.DeleteRoute(route));
  }
  RETURN_IF_ERROR(tunnel4_.Remove());
  RETURN_IF_ERROR(tunnel6_.Remove());
  return rules_.Remove();
}

}  // namespace holdfast::netproxy
